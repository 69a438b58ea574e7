//! How links begin, go on and end.

use std::time::Duration;

use plexus_testkit::TestHub;
use serde_json::{Value, json};

use super::end::{BOTH, End, Ended, Enrolled, How};
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
async fn a_node_is_online_when_its_test_call_comes_back_and_offline_when_it_says_goodbye() {
    for how in BOTH {
        let hub = TestHub::start().await;
        let node = Enrolled::new(&hub, "nas").await;
        assert_eq!(until_state(&hub, &node, "new").await["transport"], Value::Null);
        let (mut end, welcome) = node.link(&hub, how).await;
        assert_eq!(
            (&welcome["version"], &welcome["epoch"], &welcome["name"], &welcome["calls"]),
            (&json!(1), &json!(1), &json!("nas"), &json!([]))
        );
        end.pass_the_test().await;
        let transport = if how == How::WebSocket { "web_socket" } else { "poll" };
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
async fn a_node_whose_test_call_fails_is_unwell_until_it_comes_back() {
    let hub = quick_hub().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    let call = end.next().await.unwrap();
    let failed = json!({ "failed": { "code": "internal", "message": "the disk is full" } });
    end.send(json!({ "type": "result", "call_id": call["call_id"], "outcome": failed })).await;
    until_state(&hub, &node, "unwell").await;
    end.pass_the_test().await;
    until_state(&hub, &node, "online").await;
}

#[tokio::test]
async fn the_round_trip_of_heartbeats_is_measured() {
    for how in BOTH {
        let hub = TestHub::start().await;
        let node = Enrolled::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, how).await;
        let shown = tokio::select! {
            // Answers whatever comes.
            frame = end.next_of("nothing") => panic!("{frame}"),
            shown = until(&hub, &node, "measured", |node| node["rtt_ms"].is_number()) => shown,
        };
        assert!(shown["rtt_ms"].as_f64().unwrap() > 0.0, "{shown}");
    }
}

#[tokio::test]
async fn a_node_that_is_not_heard_is_cut_off_and_offline() {
    for how in BOTH {
        let hub = quick_hub().await;
        let node = Enrolled::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, how).await;
        end.pass_the_test().await;
        until_state(&hub, &node, "online").await;
        // As a half-open connection: it is there, and nothing comes.
        end.end().await;
        until_state(&hub, &node, "offline").await;
    }
}

#[tokio::test]
async fn a_node_whose_link_broke_is_offline_when_it_does_not_come_back() {
    let hub = quick_hub().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    end.pass_the_test().await;
    until_state(&hub, &node, "online").await;
    drop(end);
    until_state(&hub, &node, "offline").await;
    let (mut end, welcome) = node.link(&hub, How::WebSocket).await;
    assert_eq!(welcome["epoch"], 2);
    end.pass_the_test().await;
    until_state(&hub, &node, "online").await;
}

#[tokio::test]
async fn a_hello_that_was_held_up_does_not_fence_the_newer_link() {
    for how in BOTH {
        let hub = TestHub::start().await;
        let node = Enrolled::new(&hub, "nas").await;
        let said = |n: u64| {
            let mut hello = node.hello();
            hello["dial"] = json!({ "start": 1, "n": n });
            hello
        };
        // The first dial is open, and its hello is somewhere on the way.
        let mut first = node.dial(&hub, how).await;
        let (mut second, welcome) = node.link_with(&hub, how, said(2)).await;
        first.send(said(1)).await;
        let fenced = if how == How::WebSocket { 4001 } else { 409 };
        assert_eq!(first.end().await, Ended(fenced));
        second.pass_the_test().await;
        until_state(&hub, &node, "online").await;
        // What is dialled next is the newest.
        let (_third, next) = node.link_with(&hub, how, said(3)).await;
        assert_eq!(
            next["epoch"].as_u64(),
            welcome["epoch"].as_u64().map(|epoch| epoch + 1),
            "one was let in since"
        );
    }
}

#[tokio::test]
async fn a_node_that_is_waited_for_is_not_given_away_for_the_key() {
    const KEY: &str = "a key of thirty-two characters..";
    let hub = TestHub::start_with(|config| {
        config.nodes.key = Some(KEY.into());
        // It is waited for until the test has ended.
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
        Enrolled { id, token: joined["token"].as_str().unwrap().to_owned(), store: uuid::Uuid::now_v7() };
    let (end, _) = node.link(&hub, How::WebSocket).await;
    assert_eq!(join(&hub).await.0, 409, "it is linked");
    drop(end);
    until(&hub, &node, "waited for", |node| node["problem"] == "it is waited for").await;
    assert_eq!(join(&hub).await.0, 409, "its link has just broken");
    let hub = hub.restart().await;
    let (status, refused) = join(&hub).await;
    assert_eq!(status, 409, "the hub has just started");
    assert!(refused["message"].as_str().unwrap().contains("expected to reconnect"), "{refused}");
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    end.send(json!({ "type": "bye", "reason": "switched off" })).await;
    until(&hub, &node, "away", |node| node["problem"].as_str().is_some_and(|why| why.contains("goodbye")))
        .await;
    let (status, again) = join(&hub).await;
    assert_eq!((status, &again["node_id"]), (201, &joined["node_id"]), "{again}");
}

#[tokio::test]
async fn a_newer_link_cuts_the_older_one_off_whatever_carries_them() {
    for (older, newer) in [
        (How::WebSocket, How::WebSocket),
        (How::WebSocket, How::Requests),
        (How::Requests, How::WebSocket),
        (How::Requests, How::Requests),
    ] {
        let hub = TestHub::start().await;
        let node = Enrolled::new(&hub, "nas").await;
        let (mut first, _) = node.link(&hub, older).await;
        let (mut second, welcome) = node.link(&hub, newer).await;
        assert_eq!(welcome["epoch"], 2);
        second.pass_the_test().await;
        let code = if older == How::WebSocket { 4001 } else { 409 };
        assert_eq!(first.end().await, Ended(code), "{older:?} by {newer:?}");
        // What it says now is not heard: a goodbye would take the node off.
        first.send(json!({ "type": "bye", "reason": "late" })).await;
        until_state(&hub, &node, "online").await;
    }
}

#[tokio::test]
async fn a_node_says_anew_what_it_can_do() {
    let hub = TestHub::start().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    end.pass_the_test().await;
    let mut hello = node.hello();
    hello["tools"] = json!([{ "name": "system_info" }]);
    hello["labels"] = json!({ "role": "nas" });
    end.send(hello).await;
    let shown = until(&hub, &node, "changed", |node| node["labels"]["role"] == "nas").await;
    assert_eq!(shown["tools"], json!(["system_info"]));
    // It is known while the node is away, and after a restart of the hub.
    drop(end);
    let hub = hub.restart().await;
    let shown = until(&hub, &node, "known", |node| node["labels"]["role"] == "nas").await;
    assert_eq!((&shown["os"], &shown["tools"]), (&json!("linux"), &json!(["system_info"])));
}

async fn change(hub: &TestHub, node: &Enrolled, change: Value) {
    let request = hub.http().patch(hub.url(&format!("/api/v1/nodes/{}", node.id)));
    let answer = request.bearer_auth(hub.admin_token()).json(&change).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
}

#[tokio::test]
async fn a_node_is_renamed_and_drained_while_it_is_linked() {
    let hub = TestHub::start().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    end.pass_the_test().await;
    until_state(&hub, &node, "online").await;
    change(&hub, &node, json!({ "name": "attic", "draining": true })).await;
    let shown = until(&hub, &node, "draining", |node| node["draining"] == true).await;
    assert_eq!((&shown["name"], &shown["state"]), (&json!("attic"), &json!("online")));
    let (_end, welcome) = node.link(&hub, How::WebSocket).await;
    assert_eq!((&welcome["name"], &welcome["draining"]), (&json!("attic"), &json!(true)));
}

#[tokio::test]
async fn a_node_that_is_removed_is_cut_off_and_does_not_come_back() {
    for how in BOTH {
        let hub = TestHub::start().await;
        let node = Enrolled::new(&hub, "nas").await;
        let (mut end, _) = node.link(&hub, how).await;
        end.pass_the_test().await;
        let request = hub.http().delete(hub.url("/api/v1/nodes/nas")).bearer_auth(hub.admin_token());
        assert_eq!(request.send().await.unwrap().status(), 200);
        let code = if how == How::WebSocket { 4003 } else { 401 };
        assert_eq!(end.end().await, Ended(code));
        assert_eq!(node.ws(&hub).await.err(), Some(401));
    }
}

#[tokio::test]
async fn a_hub_that_stops_says_goodbye_and_knows_its_nodes_when_it_is_back() {
    let hub = TestHub::start().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::WebSocket).await;
    end.pass_the_test().await;
    let (hub, ()) = tokio::join!(hub.restart(), async {
        let bye = end.next_of("bye").await;
        assert_eq!(bye["reason"], "the hub stops");
        assert_eq!(end.end().await, Ended(1001));
    });
    let (_end, welcome) = node.link(&hub, How::WebSocket).await;
    assert_eq!(welcome["epoch"], 2, "it counts on");
}

#[tokio::test]
async fn a_request_whose_answer_was_lost_can_be_made_again() {
    let hub = TestHub::start().await;
    let node = Enrolled::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, How::Requests).await;
    let call = end.next_of_all().await;
    let call = match call {
        Ok(call) if call["type"] == "call" => call,
        _ => end.next().await.expect("the test call"),
    };
    let outcome = json!({ "output": { "text": "here" } });
    let result = json!({ "type": "result", "call_id": call["call_id"], "outcome": outcome });
    end.send(result.clone()).await;
    let End::Poll(poll) = &mut end else { panic!() };
    poll.again(result).await;
    until_state(&hub, &node, "online").await;
    // Nothing was taken twice: the next frame still follows the last.
    end.send(json!({ "type": "ping", "n": 7 })).await;
    assert_eq!(end.next_of("pong").await["n"], 7);
}
