//! Log lines of tools, for clients that request them.

use std::time::Duration;

use plexus_testkit::interactive_client::{REVISION_2025_06, REVISION_2025_11, consenting_client};
use plexus_testkit::{ClientRevision, TestHub};
use serde_json::{Value, json};

use crate::asking_tool::{NAME, add_asking_tool};

async fn hub() -> (TestHub, String) {
    let hub = TestHub::start().await;
    add_asking_tool(&hub, Duration::from_secs(60));
    let token = hub.token("ann", &["call:*"]).await.token;
    (hub, token)
}

fn levels(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["params"]["level"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn requested_log_lines_come_before_the_result() {
    let (hub, token) = hub().await;
    for speaks in [REVISION_2025_06, REVISION_2025_11, ClientRevision::Stateless] {
        let client = consenting_client(&hub, &token, speaks).await.with_log_level("notice").await;
        client.tool_text(NAME, json!({ "log": ["debug", "notice", "info", "error"] })).await;
        let messages = client.received();
        assert_eq!(levels(&messages), ["notice", "error"], "{speaks:?}");
        assert_eq!(messages[0]["method"], "notifications/message");
        assert_eq!(messages[0]["params"]["logger"], "asking");
    }
}

#[tokio::test]
async fn no_log_lines_without_a_level() {
    let (hub, token) = hub().await;
    for speaks in [REVISION_2025_06, REVISION_2025_11, ClientRevision::Stateless] {
        let client = consenting_client(&hub, &token, speaks).await;
        client.tool_text(NAME, json!({ "log": ["emergency"] })).await;
        assert!(client.received().is_empty(), "{speaks:?}");
    }
}

#[tokio::test]
async fn log_level_belongs_to_one_session_and_survives_a_restart() {
    let (hub, token) = hub().await;
    let client = hub.mcp(&token).initialize("2025-11-25").await.0;
    assert_eq!(client.call("logging/setLevel", json!({ "level": "loud" })).await.error(), (200, -32602));
    assert_eq!(client.call("logging/setLevel", json!({})).await.error(), (200, -32602));
    assert_eq!(client.call("logging/setLevel", json!({ "level": "error" })).await.result(), json!({}));
    let hub = hub.restart().await;
    add_asking_tool(&hub, Duration::from_secs(60));
    let client = client.at(hub.url("/mcp"));
    let params = json!({ "name": NAME, "arguments": { "log": ["error", "info"] } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let messages = client.post_stream(&call).await.to_end().await;
    assert_eq!(levels(&messages[..1]), ["error"]);
    assert_eq!(messages[1]["result"]["isError"], false, "{messages:?}");
    let other = hub.mcp(&token).initialize("2025-11-25").await.0;
    assert_eq!(other.post_json(&call).await.result()["isError"], false);
}
