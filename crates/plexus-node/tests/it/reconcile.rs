//! Reconciliation after a lost link or a restart of the node: what is reported, sent again, stopped and deleted.

use std::time::Duration;

use plexus_kit::{Clock, Environment};
use plexus_node::{NodeLimits, NodeOptions};
use plexus_proto::node::{Frame, Heartbeat, HeldState, Order};
use plexus_proto::{CallId, ErrorCode, NodeId};
use serde_json::json;

use super::scripted_hub::{ScriptedHub, TestNode, call, failure, nothing, on_disk, state, text, within};

#[tokio::test]
async fn result_without_a_link_is_sent_over_the_next_until_it_is_confirmed() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", json!({ "say": "late" })).await;
    test_node.gate.started(1).await;
    hub.cut().await;
    let mut hub = test_node.dial();
    let hello = hub.hello().await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    test_node.gate.open(1);
    // The call ends before the hub has answered.
    within("the result to be on disk", async {
        while test_node.on_disk(id).await.as_deref() != Some("finished") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    hub.send(Frame::Welcome(super::scripted_hub::welcome(60_000, 3, &[(id, Order::Keep)]))).await;
    assert_eq!(text(hub.result(id).await), "late");
    hub.cut().await;
    let (mut hub, hello) = test_node.link(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Finished));
    assert_eq!(text(hub.result(id).await), "late", "it is not confirmed");
    hub.confirm(id).await;
    test_node.deleted(id).await;
    hub.cut().await;
    let (_hub, hello) = test_node.link(&[]).await;
    assert_eq!(state(&hello, id), None);
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn unstored_result_survives_the_handshake() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("look", json!({ "say": "seen" })).await;
    test_node.gate.started(1).await;
    hub.cut().await;
    let mut hub = test_node.dial();
    assert_eq!(state(&hub.hello().await, id), Some(HeldState::Running));
    test_node.gate.open(1);
    within("the call to end", async {
        while test_node.count("SELECT count(*) FROM audit WHERE phase = 'finished'").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    hub.send(Frame::Welcome(super::scripted_hub::welcome(60_000, 3, &[(id, Order::Keep)]))).await;
    assert_eq!(text(hub.result(id).await), "seen");
}

#[tokio::test]
async fn dial_numbers_increase_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut dials = Vec::new();
    for _ in 0..2 {
        let test_node = TestNode::at(folder.path(), NodeLimits::default()).await;
        for _ in 0..2 {
            let (hub, hello) = test_node.link(&[]).await;
            dials.push(hello.dial.expect("a dial"));
            hub.cut().await;
        }
        test_node.supervisor.shutdown(Duration::from_secs(5)).await;
    }
    assert!(dials.is_sorted_by(|one, next| one < next), "{dials:?}");
}

#[tokio::test]
async fn clock_jumps_end_no_call_and_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let options = NodeOptions::new(NodeId::new(), folder.path().to_owned(), Environment::default());
    let test_node = TestNode::start(NodeOptions { clock: clock.clone(), ..options }).await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", json!({ "say": "in its time" })).await;
    test_node.gate.started(1).await;
    for jump in ["2036-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2026-01-01T00:00:01Z"] {
        clock.set(jump.parse().unwrap());
        // This link and the next one still carry frames.
        hub.send(Frame::Ping(Heartbeat { n: 7 })).await;
        within("a heartbeat", async { while !matches!(hub.frame().await, Frame::Pong(_)) {} }).await;
        hub.cut().await;
        let (next, hello) = test_node.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Running), "{jump}");
        hub = next;
    }
    clock.set("2040-01-01T00:00:00Z".parse().unwrap());
    test_node.gate.open(1);
    assert_eq!(text(hub.result(id).await), "in its time");
    hub.confirm(id).await;
    test_node.deleted(id).await;
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn unwanted_calls_are_stopped_and_deleted() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let finished_call = hub.call("write", nothing()).await;
    test_node.gate.started(1).await;
    test_node.gate.open(1);
    hub.result(finished_call).await;
    let (cancelled_call, running_call) =
        (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    test_node.gate.started(3).await;
    hub.cut().await;
    let orders =
        [(finished_call, Order::Forget), (cancelled_call, Order::Cancel), (running_call, Order::Keep)];
    let (mut hub, hello) = test_node.link(&orders).await;
    assert_eq!(state(&hello, finished_call), Some(HeldState::Finished));
    test_node.gate.cancelled(1).await;
    test_node.deleted(finished_call).await;
    test_node.deleted(cancelled_call).await;
    test_node.gate.open(1);
    assert!(matches!(hub.next_frame().await, Frame::Result(result) if result.call_id == running_call));
}

#[tokio::test]
async fn call_without_an_order_is_kept() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    test_node.gate.open(1);
    let id = hub.call("write", json!({ "say": "still here" })).await;
    hub.result(id).await;
    hub.cut().await;
    let (mut hub, _) = test_node.link(&[(CallId::new(), Order::Forget)]).await;
    assert_eq!(text(hub.result(id).await), "still here");
}

#[tokio::test]
async fn new_link_replaces_an_open_one() {
    let test_node = TestNode::new().await;
    let (mut old, _) = test_node.link(&[]).await;
    let id = old.call("write", json!({ "say": "to the new one" })).await;
    old.accepted(id).await;
    let (mut new, hello) = test_node.link(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    assert!(matches!(old.end().await.end, plexus_node::link::LinkError::Fenced));
    test_node.gate.open(1);
    assert_eq!(text(new.result(id).await), "to the new one");
}

/// A node in its own runtime, which can be killed like a process, without any cleanup.
fn kill_after(
    folder: std::path::PathBuf,
    script: impl AsyncFnOnce(&TestNode, &mut ScriptedHub) -> CallId,
) -> CallId {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let test_node = TestNode::at(&folder, NodeLimits::default()).await;
        let (mut hub, _) = test_node.link(&[]).await;
        script(&test_node, &mut hub).await
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    id
}

/// Runs the script on the node that starts after the kill.
fn after_restart(folder: &std::path::Path, script: impl AsyncFnOnce(&TestNode)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let test_node = TestNode::at(folder, NodeLimits::default()).await;
        script(&test_node).await;
        test_node.supervisor.shutdown(Duration::from_secs(5)).await;
    });
}

#[test]
fn call_running_at_a_crash_is_interrupted_and_never_rerun() {
    let folder = tempfile::tempdir().unwrap();
    let id = kill_after(folder.path().to_owned(), async |test_node, hub| {
        let id = hub.call("write", nothing()).await;
        hub.accepted(id).await;
        test_node.gate.started(1).await;
        id
    });
    after_restart(folder.path(), async |test_node| {
        assert_eq!(on_disk(folder.path(), id).await.as_deref(), Some("interrupted"));
        let (mut hub, hello) = test_node.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Interrupted));
        let interrupted = failure(hub.result(id).await);
        assert_eq!((interrupted.code, interrupted.nothing_ran), (ErrorCode::Interrupted, false));
        // A hub that does not know this sends the call again.
        let mut again = call("write", nothing());
        again.call_id = id;
        hub.send(Frame::Call(again)).await;
        assert_eq!(failure(hub.result(id).await).code, ErrorCode::Interrupted);
        hub.confirm(id).await;
        test_node.deleted(id).await;
        assert_eq!(test_node.gate.runs(), 0);
    });
}

#[test]
fn result_stored_before_a_crash_is_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let id = kill_after(folder.path().to_owned(), async |test_node, hub| {
        test_node.gate.open(1);
        let id = hub.call("write", json!({ "say": "done before" })).await;
        hub.result(id).await;
        id
    });
    after_restart(folder.path(), async |test_node| {
        let (mut hub, hello) = test_node.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Finished));
        assert_eq!(text(hub.result(id).await), "done before");
    });
}

#[test]
fn store_id_is_stable_and_unique() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut names = Vec::new();
    for folder in [&folder, &folder, &other] {
        after_restart(folder.path(), async |test_node| {
            let (_hub, hello) = test_node.link(&[]).await;
            names.push(hello.store_id);
        });
    }
    assert_eq!(names[0], names[1]);
    assert_ne!(names[0], names[2]);
}

#[tokio::test]
async fn data_folder_is_used_by_one_node_only() {
    let test_node = TestNode::new().await;
    let folder = test_node.folder().to_owned();
    let options = NodeOptions::new(NodeId::new(), folder, Environment::default());
    let error = plexus_node::Node::open(options, &test_node.supervisor).await.unwrap_err().to_string();
    assert!(error.contains("another process is already running the node of the data folder"), "{error}");
}
