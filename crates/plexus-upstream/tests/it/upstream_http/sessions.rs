//! Sessions at a server over HTTP: each is created once, and ended there when it is no longer needed.

use std::time::Duration;

use plexus_testkit::TestHub;
use plexus_upstream::Timing;
use serde_json::json;

use super::ConnectParams;
use super::scripted::{ScriptedServer, answer, json_answer, result, session_era};
use crate::upstream::{fast_timing, text};

/// Calls of this many conversations, each with its own session at the server.
async fn conversations(hub: &TestHub, server: &ScriptedServer, count: usize) {
    hub.add_upstream("far", &json!({ "url": server.url(), "per_session": true })).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    for thread in 0..count {
        let client = hub.mcp(&token).header("plexus-session", &thread.to_string());
        assert_eq!(text(&client.tool("mcp__far__echo", json!({})).await), "scripted");
    }
    // And the shared session.
    assert_eq!(server.count("initialize"), count + 1);
}

#[tokio::test]
async fn idle_session_is_ended_at_its_server() {
    let server = ScriptedServer::start(session_era).await;
    let hub = TestHub::start_timed(Timing { idle: Duration::from_secs(1), ..fast_timing() }).await;
    conversations(&hub, &server, 3).await;
    server.wait_for_requests("DELETE", 3).await;
}

#[tokio::test]
async fn evicted_session_is_ended_at_its_server() {
    let server = ScriptedServer::start(session_era).await;
    let hub = TestHub::start_timed(fast_timing()).await;
    // One more than the limit.
    conversations(&hub, &server, 65).await;
    server.wait_for_requests("DELETE", 1).await;
}

#[tokio::test]
async fn server_without_get_is_not_polled() {
    let server = ScriptedServer::start(|request| match request.message_method() {
        "initialize" => {
            let welcome = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "scripted", "version": "1" },
            });
            json_answer(200, "mcp-session-id: s-1\r\n", &result(request, &welcome))
        }
        // As a server answers that has a route for POST only.
        "GET" => answer(404, "content-type: text/html\r\n", "<pre>Cannot GET /mcp</pre>"),
        _ => session_era(request),
    })
    .await;
    let _client = ConnectParams::to(&server.url()).connect().await;
    server.wait_for_requests("GET", 1).await;
    // Longer than the pause before the next attempt would be.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let counts = ["initialize", "GET", "DELETE"].map(|method| server.count(method));
    assert_eq!(counts, [1, 1, 0]);
}
