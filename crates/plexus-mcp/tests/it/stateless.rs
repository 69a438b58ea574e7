//! 2026-07-28: results, streams of calls, and cancellation by closing a stream.

use plexus_testkit::{SseEvent, TestHub};
use serde_json::{Value, json};

use crate::tools::controlled_tool;

const SERVER: &str = "io.modelcontextprotocol/serverInfo";

#[tokio::test]
async fn discover_returns_revisions_and_capabilities() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let answer = client.modern("server/discover", json!({})).await;
    assert_eq!(answer.status, 200);
    let result = answer.result();
    let supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    assert_eq!(result["supportedVersions"], json!(supported));
    for (capability, expected) in [
        ("tools", json!({ "listChanged": true })),
        ("prompts", json!({ "listChanged": true })),
        ("resources", json!({ "listChanged": true, "subscribe": true })),
        ("completions", json!({})),
        ("logging", json!({})),
        ("extensions", json!({ "io.modelcontextprotocol/tasks": {} })),
    ] {
        assert_eq!(result["capabilities"][capability], expected, "{capability}");
    }
    assert!(result["instructions"].as_str().unwrap().contains("Plexus"));
    assert_eq!(result["_meta"][SERVER]["name"], "plexus");
    assert!(result.get("serverInfo").is_none(), "it is in _meta in this revision");
}

#[tokio::test]
async fn results_are_complete_and_only_lists_are_cacheable() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let add = json!({ "name": "todo", "arguments": { "action": "add", "text": "milk" } });
    let wrong = json!({ "name": "todo", "arguments": { "action": "fly" } });
    let failing = json!({ "name": "todo", "arguments": { "action": "remove", "id": 9 } });
    let cases = [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("tools/call", add, false),
        ("tools/call", wrong, false),
        ("tools/call", failing, false),
    ];
    for (method, params, cacheable) in cases {
        let answer = client.modern(method, params.clone()).await;
        let label = format!("{method} {params}");
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None), "{label}");
        let result = answer.result();
        assert_eq!(result["resultType"], "complete", "{label}");
        assert_eq!(result["_meta"][SERVER]["name"], "plexus", "{label}");
        assert!(result["_meta"][SERVER]["version"].is_string(), "{label}");
        match cacheable {
            true => {
                assert!(result["ttlMs"].is_u64(), "{label}: {result}");
                assert_eq!(result["cacheScope"], "private", "{label}: the list depends on the token");
            }
            false => {
                assert!(result.get("ttlMs").is_none(), "{label}");
                assert!(result.get("cacheScope").is_none(), "{label}");
            }
        }
    }
}

#[tokio::test]
async fn tools_have_all_members_and_results_structured_content() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let list = client.modern("tools/list", json!({})).await.result();
    for tool in list["tools"].as_array().unwrap() {
        assert!(tool["title"].is_string() && tool["annotations"].is_object(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"].is_object(), tool["name"] != "tool_call", "{tool}");
        assert_eq!(tool["_meta"], crate::tools::meta_of(tool["name"].as_str().unwrap()), "{tool}");
    }
    let added = client.tool("todo", json!({ "action": "add", "text": "milk" })).await;
    assert_eq!(added["structuredContent"]["items"][0]["text"], "milk");
    assert_eq!(added["content"], json!([{ "type": "text", "text": "[ ] 1. milk" }]));
    assert_eq!(added["isError"], false);
    let wrong = client.tool("todo", json!({ "action": "add", "txet": "milk" })).await;
    assert_eq!(wrong["isError"], true);
    assert!(wrong["content"][0]["text"].as_str().unwrap().contains("did you mean \"text\"?"));
    // The session depends only on the token and the client.
    let list = client.tool("todo", json!({ "action": "list" })).await;
    assert_eq!(list["structuredContent"], added["structuredContent"]);
}

#[tokio::test]
async fn get_and_delete_are_not_allowed() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (session, _) = client.initialize("2025-06-18").await;
    for client in [&client, &session] {
        let client = client.header("mcp-protocol-version", "2026-07-28");
        for answer in [client.get().await, client.delete().await] {
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{answer:?}");
        }
    }
    assert_eq!(session.call("ping", json!({})).await.status, 200, "the session is still there");
}

#[tokio::test]
async fn call_with_progress_is_a_stream_without_event_ids() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    for token in [json!("t"), json!(0)] {
        let (tool, mut control) = controlled_tool("work");
        hub.registry().add([tool]);
        let params = json!({ "name": "work", "_meta": { "progressToken": token } });
        let (client, body) = client.modern_request("a", "tools/call", params);
        let mut stream = client.post_stream(&body).await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        assert_eq!(stream.headers()["x-accel-buffering"], "no");
        assert!(stream.headers().get("mcp-session-id").is_none());
        control.started().await;
        assert_eq!(stream.next().await, Some(SseEvent::Comment(" ".to_owned())), "a keep-alive comes first");
        let mut sent = Vec::new();
        // The second value does not increase, so it is not sent.
        for done in [1.0, 1.0, 2.5] {
            control.progress(done).await;
        }
        control.finish("done").await;
        let result = loop {
            match stream.next().await.expect("a result before the end") {
                SseEvent::Message { id: Some(id), .. } => panic!("an event id: {id}"),
                SseEvent::Message { id: None, json } if json["method"] == "notifications/progress" => {
                    assert_eq!(json["params"]["progressToken"], token);
                    assert_eq!(json["params"]["total"], 3.0);
                    sent.push((
                        json["params"]["progress"].as_f64().unwrap(),
                        json["params"]["message"].clone(),
                    ));
                }
                SseEvent::Message { id: None, json } => break json,
                SseEvent::Comment(_) => {}
                SseEvent::Priming { .. } => panic!("this revision has no priming event"),
            }
        };
        assert_eq!(sent, [(1.0, json!("step 1")), (2.5, json!("step 2.5"))]);
        assert_eq!(result["id"], "a");
        assert_eq!(result["result"]["resultType"], "complete");
        assert_eq!(result["result"]["content"][0]["text"], "done");
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn call_without_progress_token_is_one_json_object() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let steps = async {
        control.started().await;
        control.progress(1.0).await;
        control.finish("done").await;
    };
    let (answer, ()) = tokio::join!(client.modern("tools/call", json!({ "name": "work" })), steps);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.result()["content"][0]["text"], "done");
}

#[tokio::test]
async fn error_on_a_stream_has_the_request_id() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let params = json!({ "name": "no_such_tool", "_meta": { "progressToken": 1 } });
    let (client, body) = client.modern_request("a", "tools/call", params);
    let messages = client.post_stream(&body).await.to_end().await;
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0]["id"], &messages[0]["error"]["code"]), (&json!("a"), &json!(-32602)));
}

#[tokio::test]
async fn closing_the_stream_of_a_call_cancels_it() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (tool, mut control) = controlled_tool("streamed");
    hub.registry().add([tool]);
    let params = json!({ "name": "streamed", "_meta": { "progressToken": 1 } });
    let (client, body) = client.modern_request(1, "tools/call", params);
    let mut stream = client.post_stream(&body).await;
    control.started().await;
    control.progress(1.0).await;
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/progress");
    drop(stream);
    control.wait_until_over().await;
    assert_eq!(hub.outcome_of("streamed").await, "cancelled");
}

#[tokio::test]
async fn closing_the_connection_of_a_plain_call_cancels_it() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (tool, mut control) = controlled_tool("plain");
    hub.registry().add([tool]);
    tokio::select! {
        answer = client.modern("tools/call", json!({ "name": "plain" })) => panic!("answered: {answer:?}"),
        () = control.started() => {}
    }
    control.wait_until_over().await;
    assert_eq!(hub.outcome_of("plain").await, "cancelled");
}

#[tokio::test]
async fn posted_cancellation_has_no_effect() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let meanwhile = async {
        control.started().await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        let answer = client.header("mcp-protocol-version", "2026-07-28").post_json(&cancel).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""));
        control.finish("undisturbed").await;
    };
    let (answer, ()) = tokio::join!(client.modern("tools/call", json!({ "name": "work" })), meanwhile);
    assert_eq!(answer.result()["content"][0]["text"], "undisturbed");
    assert_eq!(hub.outcome_of("work").await, "ok");
}

#[tokio::test]
async fn calls_with_the_same_id_are_independent() {
    let hub = TestHub::start().await;
    let client = hub.mcp(&hub.token("modern", &["call:*"]).await.token);
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let steps = async {
        control.started().await;
        control.started().await;
        control.finish("one").await;
        control.finish("two").await;
    };
    let call = || client.modern("tools/call", json!({ "name": "work" }));
    let (first, right, ()) = tokio::join!(call(), call(), steps);
    let mut texts: Vec<Value> =
        [first, right].map(|answer| answer.result()["content"][0]["text"].clone()).into();
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["one", "two"]);
}
