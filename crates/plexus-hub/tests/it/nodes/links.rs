//! How links start, continue and end.

use std::time::Duration;

use plexus_testkit::TestHub;
use serde_json::{Value, json};

use super::scripted_node::{ALL_TRANSPORTS, EnrolledNode, LinkEnded, LinkTransport, NodeLink};
use super::{quick_hub, until, until_state};

/// Kinds of the events about nodes, up to one of this kind.
async fn events_until(hub: &TestHub, kind: &str) -> Vec<Value> {
    let mut stream = hub.events("/ws/events?after=0&owner=hub", &hub.admin_token()).open().await;
    let mut events = Vec::new();
    loop {
        let event = stream.event().await;
        let is_last = event.kind.as_str() == kind;
        events.push(json!({ "kind": event.kind, "payload": event.payload }));
        if is_last {
            return events;
        }
    }
}

#[tokio::test]
async fn node_is_online_after_its_test_call_and_offline_after_bye() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        assert_eq!(until_state(&hub, &node, "new").await["transport"], Value::Null);
        let (mut end, welcome) = node.link(&hub, transport).await;
        assert_eq!(
            (&welcome["version"], &welcome["epoch"], &welcome["name"], &welcome["calls"]),
            (&json!(1), &json!(1), &json!("nas"), &json!([]))
        );
        end.answer_probe().await;
        let transport = if transport == LinkTransport::WebSocket { "web_socket" } else { "poll" };
        let shown = until(&hub, &node, "online and measured", |node| {
            node["state"] == "online" && node["transport"] == transport
        });
        assert_eq!(shown.await["hostname"], "scripted");
        let online = events_until(&hub, "node_online").await;
        assert_eq!(online.last().unwrap()["payload"]["node"], "nas");
        end.send(json!({ "type": "bye", "reason": "switched off by its owner" })).await;
        let shown = until_state(&hub, &node, "offline").await;
        assert_eq!(shown["transport"], Value::Null);
        let offline = events_until(&hub, "node_offline").await;
        let reason = offline.last().unwrap()["payload"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("switched off by its owner"), "{reason}");
    }
}

#[tokio::test]
async fn node_is_unwell_while_its_test_call_fails() {
    let hub = quick_hub().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    let call = end.next().await.unwrap();
    let failed = json!({ "failed": { "code": "internal", "message": "the disk is full" } });
    end.send(json!({ "type": "result", "call_id": call["call_id"], "outcome": failed })).await;
    until_state(&hub, &node, "unwell").await;
    end.answer_probe().await;
    until_state(&hub, &node, "online").await;
}

#[tokio::test]
async fn heartbeat_round_trip_is_measured() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, transport).await;
        let shown = tokio::select! {
            // Answers all frames.
            frame = end.next_of("nothing") => panic!("{frame}"),
            shown = until(&hub, &node, "measured", |node| node["rtt_ms"].is_number()) => shown,
        };
        assert!(shown["rtt_ms"].as_f64().unwrap() > 0.0, "{shown}");
    }
}

#[tokio::test]
async fn silent_node_is_disconnected_and_offline() {
    for transport in ALL_TRANSPORTS {
        let hub = quick_hub().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, transport).await;
        end.answer_probe().await;
        until_state(&hub, &node, "online").await;
        // Like a half-open connection: it is open, and nothing arrives.
        end.end().await;
        until_state(&hub, &node, "offline").await;
    }
}

#[tokio::test]
async fn node_that_does_not_reconnect_is_offline() {
    let hub = quick_hub().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.answer_probe().await;
    until_state(&hub, &node, "online").await;
    drop(end);
    until_state(&hub, &node, "offline").await;
    let (mut end, welcome) = node.link(&hub, LinkTransport::WebSocket).await;
    assert_eq!(welcome["epoch"], 2);
    end.answer_probe().await;
    until_state(&hub, &node, "online").await;
}

#[tokio::test]
async fn delayed_hello_does_not_fence_a_newer_link() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let hello_with_dial = |n: u64| {
            let mut hello = node.hello();
            hello["dial"] = json!({ "start": 1, "n": n });
            hello
        };
        // The first dial is open, and its hello is delayed.
        let mut first = node.dial(&hub, transport).await;
        let (mut second, welcome) = node.link_with(&hub, transport, hello_with_dial(2)).await;
        first.send(hello_with_dial(1)).await;
        let fenced = if transport == LinkTransport::WebSocket { 4001 } else { 409 };
        assert_eq!(first.end().await, LinkEnded(fenced));
        second.answer_probe().await;
        until_state(&hub, &node, "online").await;
        // The next dial is the newest.
        let (_third, next) = node.link_with(&hub, transport, hello_with_dial(3)).await;
        assert_eq!(
            next["epoch"].as_u64(),
            welcome["epoch"].as_u64().map(|epoch| epoch + 1),
            "one link was admitted in between"
        );
    }
}

#[tokio::test]
async fn key_cannot_take_over_an_expected_node() {
    const KEY: &str = "a key of thirty-two characters..";
    let hub = TestHub::start_with(|config| {
        config.nodes.key = Some(KEY.into());
        // The node is expected to reconnect until the test has ended.
        config.nodes.heartbeat = Duration::from_secs(60);
        config.nodes.missed = 10;
    })
    .await;
    let join = async |hub: &TestHub| {
        let request = hub.http().post(hub.url("/api/v1/nodes/join"));
        let answer = request.json(&json!({ "key": KEY, "name": "ci-1" })).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (_, joined) = join(&hub).await;
    let id = joined["node_id"].as_str().unwrap().parse().unwrap();
    let node =
        EnrolledNode { id, token: joined["token"].as_str().unwrap().to_owned(), store: uuid::Uuid::now_v7() };
    let (end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    assert_eq!(join(&hub).await.0, 409, "the node is linked");
    drop(end);
    until(&hub, &node, "expected", |node| node["problem"] == "it is expected to connect").await;
    assert_eq!(join(&hub).await.0, 409, "its link has just broken");
    let hub = hub.restart().await;
    let (status, refused) = join(&hub).await;
    assert_eq!(status, 409, "the hub has just started");
    assert!(refused["message"].as_str().unwrap().contains("expected to reconnect"), "{refused}");
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.send(json!({ "type": "bye", "reason": "switched off" })).await;
    until(&hub, &node, "away", |node| {
        node["problem"].as_str().is_some_and(|why| why.contains("disconnected"))
    })
    .await;
    let (status, again) = join(&hub).await;
    assert_eq!((status, &again["node_id"]), (201, &joined["node_id"]), "{again}");
}

#[tokio::test]
async fn newer_link_replaces_the_older_on_any_transport() {
    for (older, newer) in [
        (LinkTransport::WebSocket, LinkTransport::WebSocket),
        (LinkTransport::WebSocket, LinkTransport::Polling),
        (LinkTransport::Polling, LinkTransport::WebSocket),
        (LinkTransport::Polling, LinkTransport::Polling),
    ] {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut first, _) = node.link(&hub, older).await;
        let (mut second, welcome) = node.link(&hub, newer).await;
        assert_eq!(welcome["epoch"], 2);
        second.answer_probe().await;
        let code = if older == LinkTransport::WebSocket { 4001 } else { 409 };
        assert_eq!(first.end().await, LinkEnded(code), "{older:?} by {newer:?}");
        // Later frames of the old link are ignored: a goodbye would take the node offline.
        first.send(json!({ "type": "bye", "reason": "late" })).await;
        until_state(&hub, &node, "online").await;
    }
}

#[tokio::test]
async fn node_updates_its_capabilities() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.answer_probe().await;
    let mut hello = node.hello();
    hello["tools"] = json!([{ "name": "system_info" }]);
    hello["labels"] = json!({ "role": "nas" });
    end.send(hello).await;
    let shown = until(&hub, &node, "changed", |node| node["labels"]["role"] == "nas").await;
    assert_eq!(shown["tools"], json!(["system_info"]));
    // The report is retained while the node is offline, and across a restart of the hub.
    drop(end);
    let hub = hub.restart().await;
    let shown = until(&hub, &node, "known", |node| node["labels"]["role"] == "nas").await;
    assert_eq!((&shown["os"], &shown["tools"]), (&json!("linux"), &json!(["system_info"])));
}

async fn change(hub: &TestHub, node: &EnrolledNode, change: Value) {
    let request = hub.http().patch(hub.url(&format!("/api/v1/nodes/{}", node.id)));
    let answer = request.bearer_auth(hub.admin_token()).json(&change).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
}

#[tokio::test]
async fn linked_node_can_be_renamed_and_drained() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.answer_probe().await;
    until_state(&hub, &node, "online").await;
    change(&hub, &node, json!({ "name": "attic", "draining": true })).await;
    let shown = until(&hub, &node, "draining", |node| node["draining"] == true).await;
    assert_eq!((&shown["name"], &shown["state"]), (&json!("attic"), &json!("online")));
    let (_end, welcome) = node.link(&hub, LinkTransport::WebSocket).await;
    assert_eq!((&welcome["name"], &welcome["draining"]), (&json!("attic"), &json!(true)));
}

#[tokio::test]
async fn removed_node_is_disconnected_permanently() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let node = EnrolledNode::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, transport).await;
        end.answer_probe().await;
        let request = hub.http().delete(hub.url("/api/v1/nodes/nas")).bearer_auth(hub.admin_token());
        assert_eq!(request.send().await.unwrap().status(), 200);
        let code = if transport == LinkTransport::WebSocket { 4003 } else { 401 };
        assert_eq!(end.end().await, LinkEnded(code));
        assert_eq!(node.ws(&hub).await.err(), Some(401));
    }
}

#[tokio::test]
async fn stopping_hub_sends_bye_and_remembers_its_nodes() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.answer_probe().await;
    let (hub, ()) = tokio::join!(hub.restart(), async {
        let bye = end.next_of("bye").await;
        assert_eq!(bye["reason"], "the hub is stopping");
        assert_eq!(end.end().await, LinkEnded(1001));
    });
    let (_end, welcome) = node.link(&hub, LinkTransport::WebSocket).await;
    assert_eq!(welcome["epoch"], 2, "the epoch continues");
}

#[tokio::test]
async fn poll_with_lost_answer_can_be_repeated() {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, LinkTransport::Polling).await;
    let call = end.next_raw().await;
    let call = match call {
        Ok(call) if call["type"] == "call" => call,
        _ => end.next().await.expect("the test call"),
    };
    let outcome = json!({ "output": { "text": "here" } });
    let result = json!({ "type": "result", "call_id": call["call_id"], "outcome": outcome });
    end.send(result.clone()).await;
    let NodeLink::Poll(poll) = &mut end else { panic!() };
    poll.again(result).await;
    until_state(&hub, &node, "online").await;
    // No frame was accepted twice: the next frame still has the expected number.
    end.send(json!({ "type": "ping", "n": 7 })).await;
    assert_eq!(end.next_of("pong").await["n"], 7);
}
