//! Findings of a review, each a test that fails today.

use std::time::Duration;

use plexus_mcp::upstream::Timing;
use plexus_testkit::TestHub;
use serde_json::json;

use super::scripted::{Scripted, answer, json_answer, result, session_era};
use crate::upstream::{agent, quick, text};

#[tokio::test]
async fn a_503_of_a_gateway_is_no_proof_that_nothing_was_run() {
    // As Envoy says it when the server broke off after it got the request, and Heroku when it takes longer than 30 s.
    let server = Scripted::start(|asked| match asked.what() {
        "tools/call" => answer(
            503,
            "",
            "upstream connect error or disconnect/reset before headers. reset reason: connection termination",
        ),
        _ => session_era(asked),
    })
    .await;
    let hub = TestHub::start_timed(quick()).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    let client = agent(&hub).await;
    let params = json!({ "name": "mcp__far__echo", "arguments": {}, "_meta": { "plexus/idempotency-key": "k" } });
    let mut told = String::new();
    for _ in 0..2 {
        let result = client.modern("tools/call", params.clone()).await.result();
        told = text(&result).to_owned();
    }
    assert_eq!(server.count("tools/call"), 1, "sent twice under one key; told: {told}");
    assert!(!told.contains("Nothing was run"), "{told}");
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_ended_at_its_server_too() {
    let server = Scripted::start(session_era).await;
    let hub = TestHub::start_timed(Timing { idle: Duration::from_millis(300), ..quick() }).await;
    hub.add_upstream("far", &json!({ "url": server.url(), "per_session": true })).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    for thread in ["one", "two", "three"] {
        let client = hub.mcp(&token).header("plexus-session", thread);
        let result = client.tool("mcp__far__echo", json!({})).await;
        assert_eq!(text(&result), "scripted");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((server.count("initialize"), server.count("DELETE")), (4, 3));
}

#[tokio::test]
async fn a_server_that_knows_no_get_is_not_asked_for_a_session_again_and_again() {
    let server = Scripted::start(|asked| match asked.what() {
        "initialize" => {
            let welcome = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "scripted", "version": "1" },
            });
            json_answer(200, "mcp-session-id: s-1\r\n", &result(asked, &welcome))
        }
        // As Express answers where only POST has a route.
        "GET" => answer(404, "content-type: text/html\r\n", "<pre>Cannot GET /mcp</pre>"),
        _ => session_era(asked),
    })
    .await;
    let hub = TestHub::start_timed(quick()).await;
    hub.add_upstream("far", &json!({ "url": server.url() })).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let counts = ["initialize", "GET", "DELETE"].map(|what| server.count(what));
    assert_eq!(counts, [1, 1, 0]);
}
