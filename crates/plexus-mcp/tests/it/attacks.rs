//! Regression tests for attacks that once succeeded.

use plexus_testkit::{RawConnection, TestHub};
use serde_json::{Value, json};

fn head(hub: &TestHub, path: &str, token: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n",
        hub.address()
    )
}

/// The token is valid when the head of the request arrives, and revoked when the body arrives.
#[tokio::test]
async fn request_whose_token_is_revoked_during_upload_has_no_effect() {
    let hub = TestHub::start().await;
    let token = hub.token("ann", &["call:*", "token:create"]).await;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } });
    let mint = json!({ "kind": "agent", "name": "ann/late" });
    let call = json!({ "arguments": { "action": "add", "text": "late" } });
    let requests = [("/mcp", initialize), ("/api/v1/tokens", mint), ("/api/v1/tools/todo/call", call)];
    let mut waiting = Vec::new();
    for (path, body) in &requests {
        let body = body.to_string();
        let mut connection = RawConnection::open(hub.address()).await;
        connection.send(format!("{}{}", head(&hub, path, &token.token, body.len()), &body[..5])).await;
        waiting.push((path, connection, body));
    }
    // All heads were accepted before the revocation, because this answer arrived after them.
    assert_eq!(hub.mcp(&token.token).initialize("2025-11-25").await.1["protocolVersion"], "2025-11-25");
    hub.revoke(token.jti).await;
    for (path, mut connection, body) in waiting {
        connection.send(&body[5..]).await;
        assert_eq!(connection.answer().await.status, 401, "{path}");
    }
    let tokens = hub.api("/api/v1/tokens").await;
    let names: Vec<_> =
        tokens["items"].as_array().unwrap().iter().map(|token| token["name"].clone()).collect();
    assert!(!names.contains(&json!("ann/late")), "{names:?}");
    assert_eq!(hub.api("/api/v1/audit?tool=todo").await["items"], json!([]));
}

#[tokio::test]
async fn open_streams_are_limited_per_principal() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("greedy", &["call:*"]).await.token);
    let (listener, body) = client.modern_request(1, "subscriptions/listen", json!({ "notifications": {} }));
    let mut streams = Vec::new();
    for _ in 0..128 {
        let mut stream = listener.post_stream(&body).await;
        assert!(stream.message().await.is_some(), "acknowledged");
        streams.push(stream);
    }
    assert_eq!(listener.post_stream(&body).await.status(), 429);
    let other = hub.mcp(&hub.token("modest", &["call:*"]).await.token);
    let (other, body) = other.modern_request(1, "subscriptions/listen", json!({ "notifications": {} }));
    assert_eq!(other.post_stream(&body).await.status(), 200, "others are not affected");
}

#[tokio::test]
async fn agent_cannot_read_hub_wide_information() {
    let hub = TestHub::start().await;
    let token = hub.token("curious", &["call:*"]).await.token;
    for path in ["/api/v1/status", "/api/v1/audit", "/api/v1/audit/verify", "/api/v1/tokens"] {
        let response = hub.http().get(hub.url(path)).bearer_auth(&token).send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
    }
}

#[tokio::test]
async fn long_call_keeps_its_name_and_outcome_in_the_session_log() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("wordy", &["call:*"]).await.token);
    let arguments = json!({ "action": "write", "section": "s", "content": "x".repeat(200_000) });
    assert_eq!(client.tool("scratchpad", arguments).await["isError"], false);
    let sessions = hub.api("/api/v1/sessions").await;
    let id = sessions["items"][0]["id"].as_str().unwrap().to_owned();
    let events = hub.api(&format!("/api/v1/sessions/{id}/events")).await["items"].clone();
    let finished: Vec<&Value> =
        events.as_array().unwrap().iter().filter(|e| e["kind"] == "tool_call").collect();
    let payload = &finished[0]["payload"];
    assert_eq!((&payload["tool"], &payload["success"]), (&json!("scratchpad"), &json!(true)));
    assert_eq!(payload["args"]["truncated"], true);
    assert!(payload["call_id"].is_string());
}

#[tokio::test]
async fn path_that_is_not_utf8_gets_a_json_error() {
    let hub = TestHub::start().await;
    let mut connection = RawConnection::open(hub.address()).await;
    let request = format!(
        "GET /api/v1/tools/%FF HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        hub.address(),
        hub.admin_token()
    );
    connection.send(request).await;
    let answer = connection.answer().await;
    assert_eq!((answer.status, answer.json()["code"].clone()), (400, json!("invalid_request")));
}

/// Of two members with the same name, an intermediary may have read the other one.
#[tokio::test]
async fn duplicate_member_of_meta_is_refused() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("ann", &["call:*"]).await.token);
    let params = json!({ "name": "session_info", "arguments": {}, "_meta": { "threadId": "one" } });
    let (client, body) = client.modern_request(1, "tools/call", params);
    assert_eq!(client.post_json(&body).await.status, 200);
    let twice = body.to_string().replacen(r#""threadId":"one""#, r#""threadId":"one","threadId":"two""#, 1);
    let answer = client.post(twice).await;
    assert_eq!(answer.error(), (400, -32602));
    assert!(answer.body.contains("threadId"), "{answer:?}");
}
