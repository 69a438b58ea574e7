//! The tool list across hub outages: fetched completely, cached, and not shown to a token that may not see it.

use plexus_testkit::{FaultyLink, TestHub, TestProxy};
use serde_json::{Value, json};

use super::fake::{FakeHub, FakeResponse};
use super::{CHANGED, Scene, in_time, names, unused_address};

async fn listed(proxy: &TestProxy) -> Value {
    proxy.client().modern("tools/list", json!({})).await.result()["tools"].clone()
}

#[tokio::test]
async fn agent_without_a_hub_gets_an_empty_list_and_a_notification() {
    let hub = TestHub::start().await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let wire = FaultyLink::to(unused_address().await).await;
    let proxy = TestProxy::start(&wire.url(""), &token).await;
    let mut agent = proxy.stdio_client();
    let greeting = agent.initialize("2025-11-25").await;
    assert_eq!(greeting["protocolVersion"], "2025-11-25");
    assert_eq!(greeting["capabilities"]["tools"]["listChanged"], true, "{greeting}");
    assert_eq!(
        agent.request("tools/list", json!({})).await["result"]["tools"],
        json!([]),
        "an empty list, not an error"
    );
    assert_eq!(listed(&proxy).await, json!([]));

    wire.point_at(hub.address());
    agent.next_message(CHANGED).await;
    let direct = hub.mcp(&token).modern("tools/list", json!({})).await.result();
    assert_eq!(listed(&proxy).await, direct["tools"]);
    let tools = agent.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(names(&tools), names(&direct["tools"]));
    assert_eq!(agent.take_unsolicited(), Vec::<Value>::new(), "notified once");
}

#[tokio::test]
async fn last_list_is_served_offline_and_after_a_restart() {
    let scene = Scene::ready().await;
    let before = scene.listed_by_hub().await;
    let mut agent = scene.proxy.stdio_client();
    agent.initialize("2025-06-18").await;
    let by_agent = agent.request("tools/list", json!({})).await["result"]["tools"].clone();
    scene.disconnect_hub().await;
    assert_eq!(listed(&scene.proxy).await, before);
    assert_eq!(agent.request("tools/list", json!({})).await["result"]["tools"], by_agent);
    agent.hang_up().await;

    let Scene { wire, proxy, token, hub } = scene;
    let folder = proxy.stop().await;
    let again = TestProxy::start_in(folder, &wire.url(""), &token, |_| {}).await;
    assert_eq!(listed(&again).await, before, "read from disk");
    let greeting = again.stdio_client().initialize("2025-11-25").await;
    let direct = hub.mcp(&token).initialize("2025-11-25").await.1;
    assert_eq!(greeting, direct, "the greeting is cached too");

    // Another token may see other tools, so its list starts empty.
    let folder = again.stop().await;
    let other = TestProxy::start_in(folder.clone(), &wire.url(""), "another token", |_| {}).await;
    assert_eq!(listed(&other).await, json!([]));
    other.stop().await;

    // A damaged file is ignored and replaced.
    let file = folder.path().join("agent/lists.json");
    for damaged in ["", "{", "[]", "{\"tools\":5}", "\u{0}\u{1}"] {
        std::fs::write(&file, damaged).unwrap();
        wire.point_at(unused_address().await);
        let proxy = TestProxy::start_in(folder.clone(), &wire.url(""), &token, |_| {}).await;
        assert_eq!(listed(&proxy).await, json!([]), "{damaged:?}");
        wire.point_at(hub.address());
        assert_eq!(listed(&proxy).await, before, "{damaged:?}");
        proxy.stop().await;
        assert!(std::fs::read_to_string(&file).unwrap().contains("todo"), "{damaged:?}");
    }
}

#[tokio::test]
async fn refused_token_gets_no_cached_list() {
    let hub = TestHub::start().await;
    let made = hub.token("agent", &["call:*"]).await;
    let wire = FaultyLink::to(hub.address()).await;
    let proxy = TestProxy::start(&wire.url(""), &made.token).await;
    assert!(!listed(&proxy).await.as_array().unwrap().is_empty());
    let file = proxy.folder().join("lists.json");
    assert!(file.exists());

    hub.revoke(made.jti).await;
    let refused = proxy.client().modern("tools/list", json!({})).await;
    assert_eq!(refused.error(), (200, -32001), "{refused:?}");
    assert_eq!(refused.json()["error"]["data"]["retryable"], false, "{refused:?}");
    assert!(!file.exists(), "the cached list was deleted");
    let mut agent = proxy.stdio_client();
    agent.initialize("2025-11-25").await;
    assert_eq!(agent.request("tools/list", json!({})).await["error"]["code"], -32001);

    // The list stays deleted while the hub is unreachable.
    wire.point_at(unused_address().await);
    wire.cut();
    assert_eq!(listed(&proxy).await, json!([]));
    let folder = proxy.stop().await;
    let again = TestProxy::start_in(folder, &wire.url(""), &made.token, |_| {}).await;
    assert_eq!(listed(&again).await, json!([]));
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "One of many.", "inputSchema": { "type": "object" } })
}

/// A hub with a list of several pages; the page with the cursor `broken` fails.
fn pages(
    count: usize,
    broken: Option<&'static str>,
) -> impl Fn(&super::fake::RecordedRequest) -> FakeResponse + Send + Sync {
    move |request| {
        if request.method() != "tools/list" {
            return FakeResponse::json(404, json!({}));
        }
        let cursor = request.body["params"]["cursor"].as_str();
        if cursor.is_some() && cursor == broken {
            return FakeResponse::json(500, json!({ "code": "internal", "message": "it broke" }));
        }
        let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let tools: Vec<Value> = (0..250).map(|number| tool(&format!("tool_{page}_{number:03}"))).collect();
        let mut result = json!({ "resultType": "complete", "tools": tools });
        if page + 1 < count {
            result["nextCursor"] = json!((page + 1).to_string());
        }
        request.result(result)
    }
}

#[tokio::test]
async fn failed_page_keeps_the_last_complete_list() {
    let hub = FakeHub::start(pages(5, None)).await;
    let proxy = TestProxy::start(&hub.url(), "token").await;
    assert_eq!(listed(&proxy).await.as_array().unwrap().len(), 1250);
    hub.answer(pages(6, Some("4")));
    assert_eq!(listed(&proxy).await.as_array().unwrap().len(), 1250, "a partial list is ignored");
    hub.answer(|_| {
        FakeResponse::Body(200, "application/json", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".to_owned())
    });
    assert_eq!(listed(&proxy).await.as_array().unwrap().len(), 1250, "an answer without a list is ignored");
    hub.answer(|_| FakeResponse::Body(200, "text/html", "<h1>Welcome to the hotel</h1>".to_owned()));
    assert_eq!(listed(&proxy).await.as_array().unwrap().len(), 1250);
    hub.answer(|_| FakeResponse::NeverSent);
    let begun = std::time::Instant::now();
    assert_eq!(listed(&proxy).await.as_array().unwrap().len(), 1250);
    assert!(begun.elapsed() < super::TIMEOUT / 2, "a silent hub does not delay the list");
    let folder = proxy.stop().await;
    hub.answer(|_| FakeResponse::Body(502, "text/plain", "away".to_owned()));
    let again = TestProxy::start_in(folder, &hub.url(), "token", |_| {}).await;
    assert_eq!(listed(&again).await.as_array().unwrap().len(), 1250);
    hub.answer(pages(1, None));
    let mut agent = again.stdio_client();
    agent.initialize("2025-11-25").await;
    agent.request("tools/list", json!({})).await;
    in_time("news", agent.next_message(CHANGED)).await;
    assert_eq!(listed(&again).await.as_array().unwrap().len(), 250);
    let strange = again.client().modern("tools/list", json!({ "cursor": "1" })).await;
    assert_eq!(strange.error().1, -32602, "the local list has a single page");
}
