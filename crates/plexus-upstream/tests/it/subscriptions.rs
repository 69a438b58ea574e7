//! Change notifications within a session: missed changes, unsubscribing, and limits.

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::{McpClient, SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

const WATCHED: &str = "test://watched-resource";

struct Scene {
    hub: TestHub,
    client: McpClient,
    _server: HttpFixture,
}

async fn scene(eras: Eras) -> Scene {
    let (hub, server) = (TestHub::start().await, Fixture::new().only(eras).start().await);
    hub.add_upstream("wiki", &json!({ "url": server.url() })).await;
    let token = hub.token("ann", &["call:*"]).await.token;
    let client = hub.mcp(&token).initialize("2025-11-25").await.0;
    let mut changes = hub.upstreams().changes();
    let there = async {
        while client.call("resources/list", json!({})).await.result()["resources"] == json!([]) {
            changes.changed().await.expect("the hub runs");
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), there).await.expect("resources in time");
    Scene { hub, client, _server: server }
}

impl Scene {
    async fn tool(&self, tool: &str, arguments: Value) {
        let params = json!({ "name": format!("mcp__wiki__{tool}"), "arguments": arguments });
        assert_eq!(self.client.call("tools/call", params).await.result()["isError"], false, "{tool}");
    }

    async fn touch(&self, uri: &str) {
        self.tool("touch_resource", json!({ "uri": uri })).await;
    }
}

/// The next message of this method, and the id that it came with.
async fn next_of(stream: &mut SseStream, method: &str) -> (String, Value) {
    let next = async {
        loop {
            if let SseEvent::Message { id, json } = stream.next().await.expect("the stream goes on")
                && json["method"] == method
            {
                return (id.expect("an id"), json["params"].clone());
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), next).await.expect("in time")
}

#[tokio::test]
async fn resource_changes_are_reported_while_subscribed() {
    for eras in [Eras::Sessions, Eras::Stateless] {
        let scene = scene(eras).await;
        let mut stream = scene.client.get_stream().await;
        let subscribed = scene.client.call("resources/subscribe", json!({ "uri": WATCHED })).await;
        assert_eq!(subscribed.result(), json!({}));
        // Until the server knows of it, changes are not told.
        let received = async {
            let mut touches = 0;
            loop {
                scene.touch(WATCHED).await;
                touches += 1;
                let received = stream.until_quiet().await;
                if received.iter().any(|message| message["params"]["uri"] == WATCHED) {
                    return touches;
                }
            }
        };
        let touches = tokio::time::timeout(std::time::Duration::from_secs(20), received).await;
        assert!(touches.is_ok_and(|touches| touches <= 5), "{eras:?}");
        let unsubscribed = scene.client.call("resources/unsubscribe", json!({ "uri": WATCHED })).await;
        assert_eq!(unsubscribed.result(), json!({}));
        scene.touch(WATCHED).await;
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "{eras:?}");
    }
}

#[tokio::test]
async fn unknown_resource_subscription_is_refused() {
    let scene = scene(Eras::Stateless).await;
    let subscribe = async |uri: &str| scene.client.call("resources/subscribe", json!({ "uri": uri })).await;
    let nowhere = subscribe("plexus+mcp://nowhere/a://1").await;
    assert_eq!(nowhere.error(), (200, -32002));
    assert_eq!(scene.client.call("resources/subscribe", json!({})).await.error(), (200, -32602));
    let endless = format!("test://template/{}/data", "a".repeat(9_000));
    assert_eq!(
        subscribe(&endless).await.error(),
        (200, -32602),
        "it would be kept for as long as the session"
    );
    let read = scene.client.call("resources/read", json!({ "uri": endless })).await;
    assert_eq!(read.error(), (200, -32602), "a template fits it, and it is not looked for");
    for number in 0..256 {
        let uri = format!("test://template/{number}/data");
        assert_eq!(subscribe(&uri).await.result(), json!({}), "{number}");
    }
    assert_eq!(subscribe("test://template/more/data").await.error(), (200, -32602));
    assert_eq!(subscribe("test://template/7/data").await.result(), json!({}), "that one is known");
    scene.client.call("resources/unsubscribe", json!({ "uri": "test://template/7/data" })).await.result();
    assert_eq!(subscribe("test://template/more/data").await.result(), json!({}), "there is room again");
}

#[tokio::test]
async fn reconnecting_client_gets_only_missed_changes() {
    let scene = scene(Eras::Sessions).await;
    let mut stream = scene.client.get_stream().await;
    let id = match stream.next().await {
        Some(SseEvent::Priming { id }) => id,
        other => panic!("no id to come back with: {other:?}"),
    };
    drop(stream);
    let resumed = scene.client.header("last-event-id", &id);
    let received = resumed.get_stream().await.until_quiet().await;
    assert_eq!(received, Vec::<Value>::new(), "nothing has changed");

    let mut watching = scene.client.get_stream().await;
    scene.tool("test_trigger_prompt_change", json!({})).await;
    let (now, _) = next_of(&mut watching, "notifications/prompts/list_changed").await;
    drop(watching);
    let methods = |received: Vec<Value>| -> Vec<Value> {
        received.iter().map(|received| received["method"].clone()).collect()
    };
    let received = methods(resumed.get_stream().await.until_quiet().await);
    assert_eq!(received, ["notifications/prompts/list_changed"], "it was away when that changed");
    let up_to_date = scene.client.header("last-event-id", &now).get_stream().await.until_quiet().await;
    assert_eq!(up_to_date, Vec::<Value>::new());
    // An id of an older hub says nothing of prompts and resources.
    let older = id.split('-').take(2).collect::<Vec<_>>().join("-");
    let received =
        methods(scene.client.header("last-event-id", &older).get_stream().await.until_quiet().await);
    assert_eq!(received, ["notifications/prompts/list_changed", "notifications/resources/list_changed"]);

    // Nobody knows what became of a resource meanwhile, so it is to be looked at again.
    scene.client.call("resources/subscribe", json!({ "uri": WATCHED })).await.result();
    let received = scene.client.header("last-event-id", &now).get_stream().await.until_quiet().await;
    assert_eq!(methods(received.clone()), ["notifications/resources/updated"]);
    assert_eq!(received[0]["params"], json!({ "uri": WATCHED }));
    drop(scene.hub);
}
