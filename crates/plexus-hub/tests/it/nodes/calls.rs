//! Calls to nodes across lost links, hub restarts and reports of other nodes.

use std::time::Duration;

use plexus_testkit::TestHub;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::task::JoinSet;

use super::scripted_node::{ALL_TRANSPORTS, EnrolledNode, LinkTransport, NodeLink};
use super::{until, until_state};

/// A hub with an online node.
async fn hub_with_node(transport: LinkTransport) -> (TestHub, EnrolledNode, NodeLink) {
    let hub = TestHub::start().await;
    let node = EnrolledNode::new(&hub, "nas").await;
    let (mut end, _) = node.link(&hub, transport).await;
    end.answer_probe().await;
    until_state(&hub, &node, "online").await;
    (hub, node, end)
}

/// Runs a command on the node `nas`; returns status and body of the answer.
fn run(hub: &TestHub, key: &str) -> JoinSet<(u16, Value)> {
    run_as(hub, &hub.admin_token(), key, false)
}

fn run_as(hub: &TestHub, token: &str, key: &str, queue: bool) -> JoinSet<(u16, Value)> {
    let request = hub.http().post(hub.url("/api/v1/tools/terminal/call")).bearer_auth(token);
    let request = request.header("idempotency-key", key).json(
        &json!({ "arguments": { "action": "run", "command": "count", "node": "nas", "queue": queue } }),
    );
    let mut call = JoinSet::new();
    call.spawn(async move {
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    });
    call
}

async fn answer_of(mut call: JoinSet<(u16, Value)>) -> (u16, Value) {
    let answer = tokio::time::timeout(super::TIMEOUT, call.join_next()).await.expect("an answer in time");
    answer.expect("one call").unwrap()
}

fn id(call: &Value) -> &str {
    call["call_id"].as_str().unwrap()
}

#[tokio::test]
async fn result_of_a_node_call_is_acknowledged() {
    for transport in ALL_TRANSPORTS {
        let (hub, _node, mut end) = hub_with_node(transport).await;
        let call = run(&hub, "k1");
        let frame = end.next_of("call").await;
        assert_eq!((&frame["tool"], &frame["keep"]), (&json!("terminal"), &json!(true)));
        assert_eq!(frame["arguments"], json!({ "action": "run", "command": "count" }), "{frame}");
        assert!(frame["caller"]["subject"].as_str().unwrap().starts_with("admin:"), "{frame}");
        end.send(json!({ "type": "ack", "call_id": frame["call_id"] })).await;
        end.answer(&frame, "1").await;
        assert_eq!(end.next_of("ack").await["call_id"], frame["call_id"]);
        let (status, body) = answer_of(call).await;
        assert_eq!((status, &body["text"], &body["call_id"]), (200, &json!("1"), &frame["call_id"]));
        let (_, again) = answer_of(run(&hub, "k1")).await;
        assert_eq!((&again["text"], &again["replayed"]), (&json!("1"), &json!(true)));
    }
}

#[tokio::test]
async fn call_survives_a_lost_link() {
    for transport in ALL_TRANSPORTS {
        let (hub, node, mut end) = hub_with_node(transport).await;
        let call = run(&hub, "k1");
        let frame = end.next_of("call").await;
        end.send(json!({ "type": "ack", "call_id": frame["call_id"] })).await;
        drop(end);
        let held = node.hello_with(&[(id(&frame), "running")]);
        let (mut end, welcome) = node.link_with(&hub, transport, held).await;
        assert_eq!(welcome["calls"], json!([{ "call_id": frame["call_id"], "order": "keep" }]));
        end.answer(&frame, "1").await;
        assert_eq!(end.next_of("ack").await["call_id"], frame["call_id"]);
        assert_eq!(answer_of(call).await.1["text"], "1");
    }
}

#[tokio::test]
async fn unaccepted_call_is_resent_and_lost_call_is_interrupted() {
    let (hub, mut node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    let call = run(&hub, "k1");
    let frame = end.next_of("call").await;
    drop(end);
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    let again = end.next_of("call").await;
    assert_eq!(id(&again), id(&frame), "the same call");
    drop(end);
    // The machine was set up again: the fate of the call there is unknown.
    node.store = uuid::Uuid::now_v7();
    let (_end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    let (_, body) = answer_of(call).await;
    assert_eq!(body["code"], "interrupted", "{body}");
}

#[tokio::test]
async fn result_during_hub_downtime_is_recorded_after_restart() {
    for transport in ALL_TRANSPORTS {
        let (hub, node, mut end) = hub_with_node(transport).await;
        let call = run(&hub, "k1");
        let frame = end.next_of("call").await;
        end.send(json!({ "type": "ack", "call_id": frame["call_id"] })).await;
        let hub = hub.restart().await;
        let (status, body) = answer_of(call).await;
        assert_eq!((status, &body["code"]), (503, &json!("unavailable")), "{body}");
        let held = node.hello_with(&[(id(&frame), "finished")]);
        let (mut end, welcome) = node.link_with(&hub, transport, held).await;
        assert_eq!(welcome["calls"], json!([{ "call_id": frame["call_id"], "order": "keep" }]));
        end.answer(&frame, "1").await;
        assert_eq!(end.next_of("ack").await["call_id"], frame["call_id"], "the result is stored");
        let (_, body) = answer_of(run(&hub, "k1")).await;
        assert_eq!((&body["text"], &body["replayed"]), (&json!("1"), &json!(true)), "{body}");
        // The call is settled now.
        drop(end);
        let held = node.hello_with(&[(id(&frame), "finished")]);
        let (_end, welcome) = node.link_with(&hub, transport, held).await;
        assert_eq!(welcome["calls"], json!([{ "call_id": frame["call_id"], "order": "forget" }]));
    }
}

#[tokio::test]
async fn call_is_resent_after_restart_only_to_the_same_store() {
    for same in [true, false] {
        let (hub, mut node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
        let call = run(&hub, "k1");
        let frame = end.next_of("call").await;
        let hub = hub.restart().await;
        answer_of(call).await;
        if !same {
            node.store = uuid::Uuid::now_v7();
        }
        let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
        if same {
            let again = end.next_of("call").await;
            assert_eq!(id(&again), id(&frame));
            assert_eq!(again["arguments"], frame["arguments"]);
            end.answer(&again, "1").await;
            end.next_of("ack").await;
            assert_eq!(answer_of(run(&hub, "k1")).await.1["text"], "1");
        } else {
            let (_, body) = answer_of(run(&hub, "k1")).await;
            assert_eq!(body["code"], "interrupted", "{body}");
        }
    }
}

/// Changes the hub's database from outside.
async fn sql(hub: &TestHub, statement: &'static str) {
    let file =
        SqliteConnectOptions::new().filename(hub.data_dir().join("plexus.db")).busy_timeout(super::TIMEOUT);
    let mut conn = file.connect().await.unwrap();
    sqlx::query(statement).execute(&mut conn).await.unwrap();
}

#[tokio::test]
async fn failed_recording_of_a_result_is_retried() {
    let (hub, _node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    let call = run(&hub, "k1");
    let frame = end.next_of("call").await;
    end.send(json!({ "type": "ack", "call_id": frame["call_id"] })).await;
    let full = "CREATE TRIGGER no_room BEFORE DELETE ON node_calls BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    sql(&hub, full).await;
    end.answer(&frame, "1").await;
    let (status, body) = answer_of(call).await;
    assert!(status >= 500, "{status} {body}");
    sql(&hub, "DROP TRIGGER no_room").await;
    // On the same link, without another trigger.
    assert_eq!(end.next_of("ack").await["call_id"], frame["call_id"]);
    let (_, again) = answer_of(run(&hub, "k1")).await;
    assert_eq!((&again["text"], &again["replayed"]), (&json!("1"), &json!(true)), "{again}");
}

#[tokio::test]
async fn overdue_queued_call_is_not_sent_after_restart() {
    let (hub, node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    end.send(json!({ "type": "bye", "reason": "switched off" })).await;
    until_state(&hub, &node, "offline").await;
    let waiting = run_as(&hub, &hub.admin_token(), "k1", true);
    until(&hub, &node, "waiting", |node| node["in_flight"] == 1).await;
    // At the hub's restart the call may still wait; when the node returns, its waiting time has passed.
    let hub = hub.restart_later(Duration::from_secs(1)).await;
    answer_of(waiting).await;
    hub.clock().advance(Duration::from_secs(3_600));
    let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
    end.answer_probe().await;
    until(&hub, &node, "rid of the call", |node| node["in_flight"] == 0).await;
    let audit = hub.api("/api/v1/audit?tool=terminal").await;
    assert_eq!(audit["items"][0]["outcome"], "deadline_exceeded", "{audit}");
    // The next call that the node receives is the new one.
    let call = run(&hub, "k2");
    let sent = end.next_of("call").await;
    assert_eq!(sent["idempotency_key"], "k2", "{sent}");
    end.answer(&sent, "1").await;
    assert_eq!(answer_of(call).await.1["text"], "1");
}

#[tokio::test]
async fn result_from_another_node_is_ignored() {
    let (hub, _nas, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    let attic = EnrolledNode::new(&hub, "attic").await;
    let (mut other, _) = attic.link(&hub, LinkTransport::WebSocket).await;
    let call = run(&hub, "k1");
    let frame = end.next_of("call").await;
    other.answer(&frame, "forged").await;
    assert_eq!(other.next_of("ack").await["call_id"], frame["call_id"], "it must forget the call");
    // Claiming to hold the call does not help either.
    drop(other);
    let held = attic.hello_with(&[(id(&frame), "finished")]);
    let (_other, welcome) = attic.link_with(&hub, LinkTransport::WebSocket, held).await;
    assert_eq!(welcome["calls"][0]["order"], "forget");
    end.answer(&frame, "1").await;
    assert_eq!(answer_of(call).await.1["text"], "1");
}

#[tokio::test]
async fn call_events_are_in_the_session_log() {
    let (hub, _node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    let call = run(&hub, "k1");
    let frame = end.next_of("call").await;
    let payload = json!({ "job": frame["call_id"], "stream": "stdout", "offset": 0, "text": "half way\n" });
    let event = json!({ "type": "event", "call_id": frame["call_id"], "seq": 1, "kind": "terminal_output", "payload": payload });
    end.send(event).await;
    end.answer(&frame, "1").await;
    let session = answer_of(call).await.1["session_id"].as_str().unwrap().to_owned();
    let mut events = hub.events(format!("/ws/sessions/{session}?after=0"), &hub.admin_token()).open().await;
    loop {
        let event = events.event().await;
        if event.kind.as_str() == "terminal_output" {
            assert_eq!(
                (&event.payload["text"], &event.payload["node"]),
                (&json!("half way\n"), &json!("nas"))
            );
            return;
        }
        assert_ne!(event.kind.as_str(), "tool_call", "it precedes the end of the call");
    }
}

#[tokio::test]
async fn unavailable_nodes_are_reported_to_callers() {
    let (hub, node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
    let call = run(&hub, "k1");
    let frame = end.next_of("call").await;
    let patch = hub.http().patch(hub.url("/api/v1/nodes/nas")).bearer_auth(hub.admin_token());
    assert_eq!(patch.json(&json!({ "draining": true })).send().await.unwrap().status(), 200);
    let (_, body) = answer_of(run(&hub, "k2")).await;
    assert_eq!(body["code"], "unavailable", "{body}");
    // Its running call still finishes.
    end.answer(&frame, "1").await;
    assert_eq!(answer_of(call).await.1["text"], "1");
    let patch = hub.http().patch(hub.url("/api/v1/nodes/nas")).bearer_auth(hub.admin_token());
    assert_eq!(patch.json(&json!({ "draining": false })).send().await.unwrap().status(), 200);
    let call = run(&hub, "k3");
    end.next_of("call").await;
    let remove = hub.http().delete(hub.url("/api/v1/nodes/nas")).bearer_auth(hub.admin_token());
    assert_eq!(remove.send().await.unwrap().status(), 200);
    let (_, body) = answer_of(call).await;
    assert_eq!(body["code"], "interrupted", "{body}");
    let never_linked = EnrolledNode::new(&hub, "nas").await;
    let (_, body) = answer_of(run(&hub, "k4")).await;
    assert_eq!(body["code"], "unavailable", "{body}");
    assert_ne!(never_linked.id, node.id);
}

#[tokio::test]
async fn queued_call_of_a_revoked_token_is_not_run() {
    for restarted in [false, true] {
        let (mut hub, node, mut end) = hub_with_node(LinkTransport::WebSocket).await;
        end.send(json!({ "type": "bye", "reason": "switched off" })).await;
        until_state(&hub, &node, "offline").await;
        let agent = hub.token("codex", &["call:terminal", "node:nas"]).await;
        let mut call = Some(run_as(&hub, &agent.token, "k1", true));
        until(&hub, &node, "waiting", |node| node["in_flight"] == 1).await;
        if restarted {
            hub = hub.restart().await;
            answer_of(call.take().unwrap()).await;
        }
        let revoke = hub.http().delete(hub.url(&format!("/api/v1/tokens/{}", agent.jti)));
        assert!(revoke.bearer_auth(hub.admin_token()).send().await.unwrap().status().is_success());

        let (mut end, _) = node.link(&hub, LinkTransport::WebSocket).await;
        end.answer_probe().await;
        if let Some(call) = call {
            let (status, body) = answer_of(call).await;
            assert_eq!((status, &body["code"]), (403, &json!("forbidden")), "{body}");
            assert!(body["message"].as_str().unwrap().contains("revoked"), "{body}");
        }
        until(&hub, &node, "rid of the call", |node| node["in_flight"] == 0).await;
        let audit = hub.api("/api/v1/audit?tool=terminal").await;
        assert_eq!(audit["items"][0]["outcome"], "forbidden", "{audit}");
        // The next call that the node receives is another one.
        let call = run(&hub, "k2");
        let frame = end.next_of("call").await;
        assert!(frame["caller"]["subject"].as_str().unwrap().starts_with("admin:"), "{frame}");
        end.answer(&frame, "1").await;
        assert_eq!(answer_of(call).await.1["text"], "1");
    }
}
