//! Sessions of the session era: ownership, lifetime, and errors for missing ones.

use plexus_testkit::TestHub;
use serde_json::{Value, json};

use crate::tools::idle;

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn notifications_and_responses_get_an_empty_202() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("notifier", &["call:*"]).await.token);
    for version in VERSIONS {
        let (client, _) = client.initialize(version).await;
        for message in [
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
            json!({ "jsonrpc": "2.0", "method": "notifications/unheard_of", "params": { "x": 1 } }),
            json!({ "jsonrpc": "2.0", "id": 5, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": -1, "message": "no" } }),
        ] {
            let answer = client.post_json(&message).await;
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{message} in {version}");
        }
    }
}

#[tokio::test]
async fn request_needs_an_existing_session_of_the_caller() {
    let hub = TestHub::start().await;
    let owner = hub.mcp(&hub.token("owner", &["call:*"]).await.token);
    let other = hub.mcp(&hub.token("other", &["call:*"]).await.token);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    for version in VERSIONS {
        let (session, _) = owner.initialize(version).await;
        let (strangers, _) = other.initialize(version).await;
        let id = session.session_id().unwrap();
        let cases = [
            ("no session id", session.without("mcp-session-id"), 400),
            ("an id that never was", session.header("mcp-session-id", "0123456789abcdef"), 404),
            ("an id that is too long", session.header("mcp-session-id", &"x".repeat(4000)), 404),
            ("another's session", strangers.header("mcp-session-id", id), 404),
        ];
        let mut not_found = Vec::new();
        for (label, client, status) in &cases {
            let answer = client.post_json(&ping).await;
            assert_eq!(answer.error(), (*status, -32600), "POST with {label} in {version}");
            assert_eq!(answer.json()["id"], 1, "POST with {label} in {version}");
            assert_eq!(client.post_json(&notification).await.status, *status, "{label} in {version}");
            assert_eq!(client.get().await.status, *status, "GET with {label} in {version}");
            assert_eq!(client.delete().await.status, *status, "DELETE with {label} in {version}");
            if *status == 404 {
                not_found.push(answer.body);
            }
        }
        assert!(not_found.windows(2).all(|pair| pair[0] == pair[1]), "the answers differ: {not_found:?}");
        assert_eq!(session.post_json(&ping).await.status, 200, "still the owner's in {version}");
    }
}

#[tokio::test]
async fn delete_ends_a_session() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("leaver", &["call:*"]).await.token);
    for version in VERSIONS {
        let (session, _) = client.initialize(version).await;
        let mut stream = session.get_stream().await;
        assert_eq!(stream.status(), 200);
        let answer = session.delete().await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{version}");
        while stream.next().await.is_some() {}
        assert_eq!(session.call("ping", json!({})).await.error(), (404, -32600), "{version}");
        assert_eq!(session.get().await.status, 404, "{version}");
        assert_eq!(session.delete().await.status, 404, "{version}");
    }
}

#[tokio::test]
async fn session_and_its_data_survive_a_restart() {
    let mut hub = TestHub::start().await;
    let token = hub.token("survivor", &["call:*"]).await.token;
    let other = hub.token("other", &["call:*"]).await.token;
    let mut sessions = Vec::new();
    for version in VERSIONS {
        let (session, _) = hub.mcp(&token).initialize(version).await;
        let add = json!({ "name": "todo", "arguments": { "action": "add", "text": version } });
        assert_eq!(session.call("tools/call", add).await.result()["isError"], false);
        let tools = session.call("tools/list", json!({})).await.body;
        sessions.push((version, session, tools));
    }
    let (ended, _) = hub.mcp(&token).initialize("2025-11-25").await;
    assert_eq!(ended.delete().await.status, 204);

    hub = hub.restart().await;
    for (version, session, tools) in sessions {
        let session = session.at(hub.url("/mcp"));
        assert_eq!(session.call("tools/list", json!({})).await.body, tools, "{version}");
        let list = json!({ "name": "todo", "arguments": { "action": "list" } });
        let list = session.call("tools/call", list).await.result();
        assert_eq!(list["content"][0]["text"], format!("[ ] 1. {version}"));
        // The revision is restored too: only the revisions with batches accept one.
        let batch = session.post_json(&json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }])).await;
        assert_eq!(batch.status, if version <= "2025-03-26" { 200 } else { 400 }, "{version}");
        let stolen = session.header("authorization", &format!("Bearer {other}"));
        assert_eq!(stolen.call("ping", json!({})).await.error(), (404, -32600), "{version}");
        assert_eq!(session.get_stream().await.status(), 200, "{version}");
    }
    assert_eq!(ended.at(hub.url("/mcp")).call("ping", json!({})).await.error(), (404, -32600));
}

#[tokio::test]
async fn renewed_token_continues_the_session() {
    let hub = TestHub::start().await;
    let first = hub.token("holder", &["call:*"]).await;
    let (session, _) = hub.mcp(&first.token).initialize("2025-06-18").await;
    let second = hub.token("holder", &["call:todo"]).await;
    hub.revoke(first.jti).await;
    assert_eq!(session.call("ping", json!({})).await.status, 401);
    let session = session.header("authorization", &format!("Bearer {}", second.token));
    // The session belongs to the subject; the tools depend on the current token.
    let list = session.call("tools/list", json!({})).await.result();
    let names: Vec<&Value> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["todo"]);
}

/// Some clients restart their ids for each conversation.
#[tokio::test]
async fn requests_with_the_same_id_are_answered_separately() {
    let hub = TestHub::start().await;
    let (session, _) = hub.mcp(&hub.token("twin", &["call:*"]).await.token).initialize("2025-11-25").await;
    let (tool, mut control) = crate::tools::controlled_tool("busy");
    hub.registry().add([tool, idle("other")]);
    let meanwhile = async {
        control.started().await;
        let other = session.call("tools/call", json!({ "name": "other", "arguments": {} })).await;
        assert_eq!(other.result()["content"][0]["text"], "nothing");
        control.finish("first").await;
    };
    let busy = session.call("tools/call", json!({ "name": "busy", "arguments": {} }));
    let (answer, ()) = tokio::join!(busy, meanwhile);
    assert_eq!(answer.result()["content"][0]["text"], "first");
}
