//! The machine tools that a proxy lists while machines connect and disconnect.

use plexus_testkit::{SseEvent, TestProxy};
use serde_json::{Value, json};

use super::scripted_node::{EnrolledNode, LinkTransport};
use super::{quick_hub, until};

const CHANGED: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn machine_tools_are_listed_while_online_and_changes_are_notified_once() {
    let hub = quick_hub().await;
    let made = hub.token("agent", &["call:*", "node:*"]).await;
    let proxy = TestProxy::start(&hub.url(""), &made.token).await;
    let (session, _) = proxy.client().initialize("2025-11-25").await;
    let of_hub =
        async || hub.mcp(&made.token).modern("tools/list", json!({})).await.result()["tools"].clone();
    let of_proxy = async || proxy.client().modern("tools/list", json!({})).await.result()["tools"].clone();
    let is_of_node =
        |tool: &Value| tool["_meta"]["plexus/placement"].as_str().is_some_and(|at| at.starts_with("node"));

    let mut stream = session.get_stream().await;
    assert_eq!(stream.next().await, Some(SseEvent::Comment(" connected".to_owned())));
    let mut stdio_client = proxy.stdio_client();
    stdio_client.initialize("2025-06-18").await;
    let mut modern = proxy.stdio_client();
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let id = modern.begin_modern("subscriptions/listen", wanted).await;
    modern.next_message("notifications/subscriptions/acknowledged").await;
    // Without a machine: the hub's list without the tools that run on machines.
    let all = of_hub().await;
    let narrow: Vec<Value> =
        all.as_array().unwrap().iter().filter(|tool| !is_of_node(tool)).cloned().collect();
    assert!(narrow.len() < all.as_array().unwrap().len(), "the hub has tools of machines: {all}");
    let settled = async {
        while of_proxy().await != json!(narrow) {
            tokio::time::sleep(super::POLL).await;
        }
    };
    tokio::time::timeout(super::TIMEOUT, settled).await.expect("the proxy knows the context");
    for notification in stream.until_quiet().await {
        assert_eq!(notification["method"], CHANGED, "for the first list");
    }
    stdio_client.request("ping", json!({})).await;
    stdio_client.take_unsolicited();
    modern.modern("tools/list", json!({})).await;
    modern.take_unsolicited();

    let nas = EnrolledNode::new(&hub, "nas").await;
    let laptop = EnrolledNode::new(&hub, "laptop").await;
    for round in 0..2 {
        let (mut end, _) = nas.link(&hub, LinkTransport::WebSocket).await;
        end.answer_probe().await;
        assert_eq!(
            stream.message().await.unwrap(),
            json!({ "jsonrpc": "2.0", "method": CHANGED }),
            "{round}"
        );
        assert_eq!(of_proxy().await, all, "{round}");
        // Another machine changes nothing visible.
        let (mut other, _) = laptop.link(&hub, LinkTransport::WebSocket).await;
        other.answer_probe().await;
        until(&hub, &laptop, "there", |node| node["state"] == "online").await;
        drop(other);
        until(&hub, &laptop, "gone", |node| node["state"] != "online").await;
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "{round}");
        drop(end);
        assert_eq!(stream.message().await.unwrap()["method"], CHANGED, "{round}");
        assert_eq!(of_proxy().await, json!(narrow), "{round}");
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "{round}");
        // The other sessions received the same two notifications.
        for _ in 0..2 {
            stdio_client.next_message(CHANGED).await;
            let notification = modern.next_message(CHANGED).await;
            assert_eq!(
                notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id,
                "{notification}"
            );
        }
        stdio_client.request("ping", json!({})).await;
        modern.modern("tools/list", json!({})).await;
        assert_eq!((stdio_client.take_unsolicited(), modern.take_unsolicited()), (vec![], vec![]), "{round}");
    }
    // Unlisted tools can still be called, and the hub reports the reason of the failure.
    let call = json!({ "name": all.as_array().unwrap().iter().find(|tool| is_of_node(tool)).unwrap()["name"], "arguments": {} });
    assert_eq!(session.call("tools/call", call).await.status, 200);
}
