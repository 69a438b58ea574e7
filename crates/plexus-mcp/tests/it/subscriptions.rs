//! `subscriptions/listen` in 2026-07-28: acknowledgement, requested notifications, and end.

use plexus_testkit::{McpClient, SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

use crate::tools::idle;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A client that sees only tools whose names begin with `seen_`.
async fn narrow(hub: &TestHub) -> McpClient {
    hub.mcp(&hub.token("narrow", &["call:seen_*"]).await.token)
}

async fn listen(client: &McpClient, id: impl Into<Value>, filters: Value) -> SseStream {
    let (client, body) =
        client.modern_request(id, "subscriptions/listen", json!({ "notifications": filters }));
    client.post_stream(&body).await
}

fn acknowledged(id: impl Into<Value>, honoured: Value) -> Value {
    let params = json!({ "_meta": { SUBSCRIPTION: id.into() }, "notifications": honoured });
    json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params })
}

fn list_changed(id: impl Into<Value>) -> Value {
    let params = json!({ "_meta": { SUBSCRIPTION: id.into() } });
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params })
}

struct Filter {
    label: &'static str,
    filters: &'static str,
    honoured: &'static str,
}

#[rustfmt::skip]
const FILTERS: &[Filter] = &[
    Filter { label: "tools",             filters: r#"{"toolsListChanged":true}"#,                               honoured: r#"{"toolsListChanged":true}"# },
    Filter { label: "tools and more",    filters: r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///x"]}"#, honoured: r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"# },
    Filter { label: "tools not",         filters: r#"{"toolsListChanged":false}"#,                              honoured: "{}" },
    Filter { label: "nothing we have",   filters: r#"{"resourceSubscriptions":["file:///x"],"moonChanged":true}"#, honoured: "{}" },
    Filter { label: "nothing",           filters: "{}",                                                         honoured: "{}" },
];

#[tokio::test]
async fn acknowledgement_comes_first_with_id_and_accepted_filters() {
    let hub = TestHub::start().await;
    let client = narrow(&hub).await;
    for filter in FILTERS {
        for id in [json!(1), json!("1"), json!("a \"b\""), json!(-3)] {
            let filters: Value = serde_json::from_str(filter.filters).unwrap();
            let honoured: Value = serde_json::from_str(filter.honoured).unwrap();
            let mut stream = listen(&client, id.clone(), filters).await;
            assert_eq!(stream.status(), 200);
            assert_eq!(stream.headers()["content-type"], "text/event-stream");
            assert_eq!(stream.headers()["x-accel-buffering"], "no");
            assert!(stream.headers().get("mcp-session-id").is_none());
            let first = stream.next().await.unwrap();
            let expected = SseEvent::Message { id: None, json: acknowledged(id, honoured) };
            assert_eq!(first, expected, "{}", filter.label);
            assert_eq!(stream.next().await, Some(SseEvent::Comment(" ".to_owned())), "{}", filter.label);
        }
    }
}

#[tokio::test]
async fn only_visible_and_subscribed_changes_are_notified() {
    let hub = TestHub::start().await;
    let client = narrow(&hub).await;
    let mut subscribed = listen(&client, "asked", json!({ "toolsListChanged": true })).await;
    let mut not = listen(&client, "not", json!({ "promptsListChanged": true })).await;
    for stream in [&mut subscribed, &mut not] {
        assert_eq!(stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    }
    hub.registry().add([idle("hidden_one")]);
    assert_eq!(subscribed.until_quiet().await, Vec::<Value>::new(), "a tool that the caller cannot see");
    hub.registry().add([idle("seen_one")]);
    assert_eq!(subscribed.message().await, Some(list_changed("asked")));
    hub.registry().remove(&["hidden_one"]);
    assert_eq!(subscribed.until_quiet().await, Vec::<Value>::new());
    hub.registry().remove(&["seen_one"]);
    assert_eq!(subscribed.message().await, Some(list_changed("asked")));
    assert_eq!(subscribed.until_quiet().await, Vec::<Value>::new());
    assert_eq!(not.until_quiet().await, Vec::<Value>::new(), "it did not subscribe to tools");
}

#[tokio::test]
async fn subscriptions_with_the_same_id_are_independent() {
    let hub = TestHub::start().await;
    let client = narrow(&hub).await;
    let mut one = listen(&client, 1, json!({ "toolsListChanged": true })).await;
    let mut two = listen(&client, 1, json!({ "toolsListChanged": true })).await;
    assert_eq!(one.message().await, Some(acknowledged(1, json!({ "toolsListChanged": true }))));
    assert_eq!(two.message().await, Some(acknowledged(1, json!({ "toolsListChanged": true }))));
    hub.registry().add([idle("seen_one")]);
    assert_eq!(one.message().await, Some(list_changed(1)));
    assert_eq!(two.message().await, Some(list_changed(1)));
    drop(one);
    hub.registry().remove(&["seen_one"]);
    assert_eq!(two.message().await, Some(list_changed(1)), "the end of one does not affect the other");
}

#[tokio::test]
async fn stopping_hub_completes_the_subscription() {
    let hub = TestHub::start().await;
    let client = narrow(&hub).await;
    let mut streams = Vec::new();
    for id in [json!(7), json!("seven")] {
        let mut stream = listen(&client, id.clone(), json!({ "toolsListChanged": true })).await;
        stream.until_quiet().await;
        streams.push((id, stream));
    }
    let ends = async {
        for (id, stream) in streams {
            let result = json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id } });
            assert_eq!(stream.to_end().await, [json!({ "jsonrpc": "2.0", "id": id, "result": result })]);
        }
    };
    let ((), _dir) = tokio::join!(ends, hub.stop());
}

#[tokio::test]
async fn subscription_ends_within_a_second_of_revocation() {
    let hub = TestHub::start().await;
    let token = hub.token("revoked", &["call:*"]).await;
    let other = hub.mcp(&hub.token("other", &["call:*"]).await.token);
    let mut stream = listen(&hub.mcp(&token.token), 1, json!({ "toolsListChanged": true })).await;
    let mut other_stream = listen(&other, 1, json!({ "toolsListChanged": true })).await;
    stream.until_quiet().await;
    hub.revoke(token.jti).await;
    let revoked = std::time::Instant::now();
    assert_eq!(stream.to_end().await, Vec::<Value>::new(), "the stream ends without a message");
    assert!(revoked.elapsed().as_secs_f64() < 1.0, "{:?}", revoked.elapsed());
    hub.registry().add([idle("seen_one")]);
    assert_eq!(other_stream.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(other_stream.message().await, Some(list_changed(1)));
}

#[tokio::test]
async fn subscription_needs_event_streams() {
    let hub = TestHub::start().await;
    let client = narrow(&hub).await.header("accept", "application/json");
    let answer = client.modern("subscriptions/listen", json!({ "notifications": {} })).await;
    assert_eq!(answer.error(), (406, -32600));
}
