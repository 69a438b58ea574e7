//! Agents' sessions across hub restarts.

use std::time::Duration;

use plexus_testkit::{FaultyLink, SseEvent, TestHub, TestProxy};
use serde_json::{Value, json};

use super::{CHANGED, Scene, add, create_token, enable, in_time, names, unused_address};

#[tokio::test]
async fn session_survives_a_hub_restart() {
    let Scene { hub, wire, proxy, token } = Scene::ready().await;
    let mut piped = proxy.stdio_client();
    piped.initialize("2025-11-25").await;
    let (over_http, _) = proxy.client().initialize("2025-06-18").await;
    let list = json!({ "name": "todo", "arguments": { "action": "list" } });
    piped.request("tools/call", add("milk")).await;
    over_http.call("tools/call", add("bread")).await.result();

    let hub = hub.restart().await;
    wire.point_at(hub.address());
    wire.cut();
    for (mut answer, text) in [
        (piped.request("tools/call", list.clone()).await, "milk"),
        (over_http.call("tools/call", list.clone()).await.json(), "bread"),
    ] {
        let items = answer["result"]["structuredContent"]["items"].take();
        assert_eq!(items[0]["text"], text, "the same satellite session: {answer}");
        assert_eq!(items.as_array().unwrap().len(), 1);
    }
    let resources = over_http.call("resources/list", json!({})).await;
    assert!(resources.result()["resources"].is_array(), "{resources:?}");
    drop(token);
}

#[tokio::test]
async fn returning_hub_is_used_immediately() {
    let scene = Scene::ready().await;
    let mut agent = scene.proxy.stdio_client();
    agent.initialize("2025-11-25").await;
    let read = json!({ "name": "todo", "arguments": { "action": "list" } });
    for _ in 0..3 {
        scene.disconnect_hub().await;
        let unavailable = agent.request("tools/call", read.clone()).await;
        assert_eq!(unavailable["error"]["code"], -32002, "{unavailable}");
        scene.reconnect_hub();
        let there = agent.request("tools/call", read.clone()).await;
        assert_eq!(there["result"]["isError"], false, "{there}");
    }
}

#[tokio::test]
async fn end_of_input_ends_only_subscriptions() {
    let scene = Scene::ready().await;
    let mut agent = scene.proxy.stdio_client();
    let id = agent
        .begin_modern("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))
        .await;
    agent.next_message("notifications/subscriptions/acknowledged").await;
    // Later requests are answered while it listens.
    let listed = agent.modern("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let last = agent.begin_modern("tools/call", add("milk")).await;
    let remaining = agent.hang_up().await;
    assert!(
        remaining.iter().any(|message| message["id"] == last && message["result"]["isError"] == false),
        "{remaining:?}"
    );
    assert!(remaining.iter().all(|message| message["id"] != id), "{remaining:?}");
    scene.proxy.stop().await;
}

#[tokio::test]
async fn cancelled_subscription_ends() {
    let hub_url = format!("http://{}", unused_address().await);
    let proxy = TestProxy::start(&hub_url, "token").await;
    let mut agent = proxy.stdio_client();
    let wanted = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    let id = agent.begin_modern("subscriptions/listen", wanted).await;
    let honoured = agent.next_message("notifications/subscriptions/acknowledged").await;
    assert_eq!(honoured["params"]["notifications"], json!({ "toolsListChanged": true }), "{honoured}");
    assert_eq!(honoured["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id, "{honoured}");
    agent
        .send_line(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
                .to_string(),
        )
        .await;
    // Otherwise the proxy would wait for it.
    agent.hang_up().await;
}

#[tokio::test]
async fn notifications_resume_after_a_hub_restart() {
    let mut hub = TestHub::start().await;
    enable(&hub, "narrow", &["todo"]);
    let token = create_token(&hub, json!({ "kind": "agent", "name": "agent", "profile": "narrow" })).await;
    let wire = FaultyLink::to(hub.address()).await;
    let proxy = TestProxy::start(&wire.url(""), token["token"].as_str().unwrap()).await;
    let (session, _) = proxy.client().initialize("2025-11-25").await;
    let tools = async || session.call("tools/list", json!({})).await.result()["tools"].clone();
    assert!(!names(&tools().await).contains(&"scratchpad"));
    let mut stream = session.get_stream().await;
    assert_eq!(stream.next().await, Some(SseEvent::Comment(" connected".to_owned())));
    let mut piped = proxy.stdio_client();
    piped.initialize("2025-06-18").await;
    for enabled in [&["todo", "scratchpad"][..], &["todo"]] {
        hub = hub.restart().await;
        wire.point_at(hub.address());
        wire.cut();
        enable(&hub, "narrow", enabled);
        let notification = in_time("news", stream.message()).await.unwrap();
        assert_eq!(notification, json!({ "jsonrpc": "2.0", "method": CHANGED }));
        in_time("news", piped.next_message(CHANGED)).await;
        assert_eq!(names(&tools().await).contains(&"scratchpad"), enabled.len() == 2);
    }
    assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "no notification is repeated");
    assert_eq!(piped.take_unsolicited(), Vec::<Value>::new());
}

#[tokio::test]
async fn hanging_hub_is_reported_in_time() {
    let scene = Scene::ready().await;
    let mut agent = scene.proxy.stdio_client();
    agent.initialize("2025-11-25").await;
    scene.wire.freeze();
    let begun = std::time::Instant::now();
    let queued = agent.request("tools/call", add("milk")).await;
    assert_eq!(queued["result"]["structuredContent"]["queued"], true, "{queued}");
    let listed: Value = agent.request("tools/list", json!({})).await;
    assert!(!listed["result"]["tools"].as_array().unwrap().is_empty(), "{listed}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    scene.wire.heal();
    scene.wire.cut();
    in_time("the replay", async {
        loop {
            let list = json!({ "name": "todo", "arguments": { "action": "list" } });
            let answer = agent.request("tools/call", list).await;
            let items = &answer["result"]["structuredContent"]["items"];
            if items.as_array().is_some_and(|items| !items.is_empty()) {
                assert_eq!(
                    items.as_array().unwrap().len(),
                    1,
                    "executed once, although the first attempt arrived too: {answer}"
                );
                return;
            }
            tokio::time::sleep(super::POLL).await;
        }
    })
    .await;
}
