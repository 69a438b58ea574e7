//! A new link after the old one, or after the node itself: what is told, sent, stopped and forgotten.

use std::time::Duration;

use plexus_kit::{Clock, Environment};
use plexus_node::{NodeLimits, NodeOptions};
use plexus_proto::node::{Frame, Heartbeat, HeldState, Order};
use plexus_proto::{CallId, ErrorCode, NodeId};
use serde_json::json;

use super::scripted::{Hub, Site, call, failure, nothing, on_disk, state, text, within};

#[tokio::test]
async fn a_result_that_no_link_was_there_for_comes_with_the_next_and_stays_until_it_is_confirmed() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", json!({ "say": "late" })).await;
    site.gate.begun(1).await;
    hub.cut().await;
    let mut hub = site.dial();
    let hello = hub.hello().await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    site.gate.open(1);
    // It ends before the hub has answered.
    within("the result to be on disk", async {
        while site.on_disk(id).await.as_deref() != Some("finished") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    hub.send(Frame::Welcome(super::scripted::welcome(60_000, 3, &[(id, Order::Keep)]))).await;
    assert_eq!(text(hub.result(id).await), "late");
    hub.cut().await;
    let (mut hub, hello) = site.link(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Finished));
    assert_eq!(text(hub.result(id).await), "late", "it was not confirmed");
    hub.confirm(id).await;
    site.forgotten(id).await;
    hub.cut().await;
    let (_hub, hello) = site.link(&[]).await;
    assert_eq!(state(&hello, id), None);
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn what_is_kept_nowhere_and_ends_while_the_hub_is_greeted_is_told_all_the_same() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("look", json!({ "say": "seen" })).await;
    site.gate.begun(1).await;
    hub.cut().await;
    let mut hub = site.dial();
    assert_eq!(state(&hub.hello().await, id), Some(HeldState::Running));
    site.gate.open(1);
    within("the call to end", async {
        while site.count("SELECT count(*) FROM audit WHERE phase = 'finished'").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    hub.send(Frame::Welcome(super::scripted::welcome(60_000, 3, &[(id, Order::Keep)]))).await;
    assert_eq!(text(hub.result(id).await), "seen");
}

#[tokio::test]
async fn dials_are_counted_through_starts_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut dials = Vec::new();
    for _ in 0..2 {
        let site = Site::at(folder.path(), NodeLimits::default()).await;
        for _ in 0..2 {
            let (hub, hello) = site.link(&[]).await;
            dials.push(hello.dial.expect("a dial"));
            hub.cut().await;
        }
        site.supervisor.shutdown(Duration::from_secs(5)).await;
    }
    assert!(dials.is_sorted_by(|one, next| one < next), "{dials:?}");
}

#[tokio::test]
async fn a_clock_that_jumps_ends_no_call_and_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let options = NodeOptions::new(NodeId::new(), folder.path().to_owned(), Environment::default());
    let site = Site::start(NodeOptions { clock: clock.clone(), ..options }).await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", json!({ "say": "in its time" })).await;
    site.gate.begun(1).await;
    for jump in ["2036-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2026-01-01T00:00:01Z"] {
        clock.set(jump.parse().unwrap());
        // The link still carries what is said, and so does the next one.
        hub.send(Frame::Ping(Heartbeat { n: 7 })).await;
        within("a sign of life", async { while !matches!(hub.frame().await, Frame::Pong(_)) {} }).await;
        hub.cut().await;
        let (next, hello) = site.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Running), "{jump}");
        hub = next;
    }
    clock.set("2040-01-01T00:00:00Z".parse().unwrap());
    site.gate.open(1);
    assert_eq!(text(hub.result(id).await), "in its time");
    hub.confirm(id).await;
    site.forgotten(id).await;
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn what_nobody_wants_is_stopped_and_forgotten() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let settled = hub.call("write", nothing()).await;
    site.gate.begun(1).await;
    site.gate.open(1);
    hub.result(settled).await;
    let (given_up, wanted) = (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    site.gate.begun(3).await;
    hub.cut().await;
    let orders = [(settled, Order::Forget), (given_up, Order::Cancel), (wanted, Order::Keep)];
    let (mut hub, hello) = site.link(&orders).await;
    assert_eq!(state(&hello, settled), Some(HeldState::Finished));
    site.gate.cancelled(1).await;
    site.forgotten(settled).await;
    site.forgotten(given_up).await;
    site.gate.open(1);
    assert!(matches!(hub.word().await, Frame::Result(result) if result.call_id == wanted));
}

#[tokio::test]
async fn a_call_of_which_the_hub_says_nothing_is_kept() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    site.gate.open(1);
    let id = hub.call("write", json!({ "say": "still here" })).await;
    hub.result(id).await;
    hub.cut().await;
    let (mut hub, _) = site.link(&[(CallId::new(), Order::Forget)]).await;
    assert_eq!(text(hub.result(id).await), "still here");
}

#[tokio::test]
async fn a_new_link_takes_the_place_of_one_that_is_still_there() {
    let site = Site::new().await;
    let (mut old, _) = site.link(&[]).await;
    let id = old.call("write", json!({ "say": "to the new one" })).await;
    old.accepted(id).await;
    let (mut new, hello) = site.link(&[(id, Order::Keep)]).await;
    assert_eq!(state(&hello, id), Some(HeldState::Running));
    assert!(matches!(old.end().await.end, plexus_node::link::LinkError::Fenced));
    site.gate.open(1);
    assert_eq!(text(new.result(id).await), "to the new one");
}

/// A node in a runtime of its own, which can be ended as a process is: between any two steps, with nothing put in order.
fn killed_while(folder: std::path::PathBuf, script: impl AsyncFnOnce(&Site, &mut Hub) -> CallId) -> CallId {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let site = Site::at(&folder, NodeLimits::default()).await;
        let (mut hub, _) = site.link(&[]).await;
        script(&site, &mut hub).await
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    id
}

/// The node that is there afterwards.
fn afterwards(folder: &std::path::Path, script: impl AsyncFnOnce(&Site)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let site = Site::at(folder, NodeLimits::default()).await;
        script(&site).await;
        site.supervisor.shutdown(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_call_that_ran_when_the_node_died_is_interrupted_and_never_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let id = killed_while(folder.path().to_owned(), async |site, hub| {
        let id = hub.call("write", nothing()).await;
        hub.accepted(id).await;
        site.gate.begun(1).await;
        id
    });
    afterwards(folder.path(), async |site| {
        assert_eq!(on_disk(folder.path(), id).await.as_deref(), Some("interrupted"));
        let (mut hub, hello) = site.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Interrupted));
        let interrupted = failure(hub.result(id).await);
        assert_eq!((interrupted.code, interrupted.nothing_ran), (ErrorCode::Interrupted, false));
        // A hub that has not heard of it sends the call again.
        let mut again = call("write", nothing());
        again.call_id = id;
        hub.send(Frame::Call(again)).await;
        assert_eq!(failure(hub.result(id).await).code, ErrorCode::Interrupted);
        hub.confirm(id).await;
        site.forgotten(id).await;
        assert_eq!(site.gate.runs(), 0);
    });
}

#[test]
fn a_result_that_was_there_when_the_node_died_is_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let id = killed_while(folder.path().to_owned(), async |site, hub| {
        site.gate.open(1);
        let id = hub.call("write", json!({ "say": "done before" })).await;
        hub.result(id).await;
        id
    });
    afterwards(folder.path(), async |site| {
        let (mut hub, hello) = site.link(&[(id, Order::Keep)]).await;
        assert_eq!(state(&hello, id), Some(HeldState::Finished));
        assert_eq!(text(hub.result(id).await), "done before");
    });
}

#[test]
fn a_store_keeps_its_name_and_another_has_another() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut names = Vec::new();
    for folder in [&folder, &folder, &other] {
        afterwards(folder.path(), async |site| {
            let (_hub, hello) = site.link(&[]).await;
            names.push(hello.store_id);
        });
    }
    assert_eq!(names[0], names[1]);
    assert_ne!(names[0], names[2]);
}

#[tokio::test]
async fn one_folder_has_one_node() {
    let site = Site::new().await;
    let folder = site.folder().to_owned();
    let options = NodeOptions::new(NodeId::new(), folder, Environment::default());
    let error = plexus_node::Node::open(options, &site.supervisor).await.unwrap_err().to_string();
    assert!(error.contains("another process is the node of the data folder"), "{error}");
}
