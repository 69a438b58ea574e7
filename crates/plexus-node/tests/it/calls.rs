//! One link: what is on disk when, and how a call ends.

use plexus_node::NodeLimits;
use plexus_proto::ErrorCode;
use plexus_proto::node::{CancelReason, Frame};
use serde_json::json;

use super::scripted::{Site, call, failure, nothing, text};

#[tokio::test]
async fn a_call_is_on_disk_before_it_is_begun_and_its_result_until_it_is_confirmed() {
    let site = Site::new().await;
    let (mut hub, hello) = site.link(&[]).await;
    assert!(hello.calls.is_empty());
    assert!(hello.tools.iter().any(|tool| tool.name == "write"), "{:?}", hello.tools);
    assert!(hello.tools.iter().all(|tool| tool.name != "probe"), "the probe is in no list");
    let id = hub.call("write", json!({ "say": "done" })).await;
    site.gate.begun(1).await;
    assert_eq!(site.on_disk(id).await.as_deref(), Some("running"));
    hub.accepted(id).await;
    site.gate.open(1);
    assert_eq!(text(hub.result(id).await), "done");
    assert_eq!(site.on_disk(id).await.as_deref(), Some("finished"));
    hub.confirm(id).await;
    site.forgotten(id).await;
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn a_call_that_only_reads_is_kept_nowhere_and_wants_no_confirmation() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("look", json!({ "say": "seen" })).await;
    site.gate.begun(1).await;
    assert_eq!(site.on_disk(id).await, None);
    site.gate.open(1);
    let Frame::Result(result) = hub.word().await else { panic!("the result is the first word") };
    assert_eq!(text(result.outcome), "seen");
    hub.cut().await;
    let (_hub, hello) = site.link(&[]).await;
    assert!(hello.calls.is_empty(), "{:?}", hello.calls);
}

#[tokio::test]
async fn a_call_that_comes_twice_is_run_once() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let call = call("write", json!({ "say": "once" }));
    let id = call.call_id;
    hub.send(Frame::Call(call.clone())).await;
    hub.send(Frame::Call(call.clone())).await;
    hub.accepted(id).await;
    site.gate.begun(1).await;
    hub.send(Frame::Call(call.clone())).await;
    site.gate.open(3);
    assert_eq!(text(hub.result(id).await), "once");
    // It has ended and was not confirmed: asked again, it tells its result again.
    hub.send(Frame::Call(call)).await;
    assert_eq!(text(hub.result(id).await), "once");
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn the_failure_of_a_tool_is_a_result_like_any_other() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    site.gate.open(1);
    let id = hub.call("write", json!({ "say": "no such file", "fail": true })).await;
    let failure = failure(hub.result(id).await);
    assert_eq!((failure.code, failure.message.as_str()), (ErrorCode::ToolFailed, "no such file"));
    assert!(!failure.nothing_ran);
    assert_eq!(site.on_disk(id).await.as_deref(), Some("finished"));
}

#[tokio::test]
async fn a_cancelled_call_is_told_to_stop_and_ends_as_cancelled() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let (one, other) = (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    site.gate.begun(2).await;
    hub.accepted(one).await;
    hub.accepted(other).await;
    hub.cancel(one, CancelReason::Caller).await;
    assert_eq!(failure(hub.result(one).await).code, ErrorCode::Cancelled);
    hub.cancel(other, CancelReason::Deadline).await;
    assert_eq!(failure(hub.result(other).await).code, ErrorCode::DeadlineExceeded);
    site.gate.cancelled(2).await;
}

#[tokio::test]
async fn a_call_ends_when_its_time_is_up_though_the_hub_says_nothing() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let mut call = call("write", nothing());
    call.deadline_ms = 50;
    let id = call.call_id;
    hub.send(Frame::Call(call)).await;
    assert_eq!(failure(hub.result(id).await).code, ErrorCode::DeadlineExceeded);
    site.gate.cancelled(1).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_and_nothing_is_run() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let unknown = hub.call("launch", nothing()).await;
    let unknown = failure(hub.result(unknown).await);
    assert_eq!((unknown.code, unknown.nothing_ran), (ErrorCode::UnknownTool, true));
    let misspelt = hub.call("write", json!({ "sya": 1 })).await;
    assert_eq!(failure(hub.result(misspelt).await).code, ErrorCode::InvalidArguments);
    let mut nobody = call("write", nothing());
    nobody.caller.subject = "whoever".to_owned();
    let id = nobody.call_id;
    hub.send(Frame::Call(nobody)).await;
    let refused = failure(hub.result(id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::InvalidRequest, true));
    assert_eq!(site.gate.runs(), 0);
}

#[tokio::test]
async fn one_call_more_than_a_node_runs_is_refused_and_one_less_is_taken() {
    let limits = NodeLimits { running: 2, ..NodeLimits::default() };
    let site = Site::with(limits).await;
    let (mut hub, _) = site.link(&[]).await;
    let (one, other) = (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    hub.accepted(one).await;
    hub.accepted(other).await;
    let third = call("write", nothing());
    hub.send(Frame::Call(third.clone())).await;
    let refused = failure(hub.result(third.call_id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::Overloaded, true));
    assert_eq!(site.on_disk(third.call_id).await, None);
    site.gate.open(3);
    hub.result(one).await;
    hub.result(other).await;
    hub.send(Frame::Call(third.clone())).await;
    hub.result(third.call_id).await;
    assert_eq!(site.gate.runs(), 3);
}

#[tokio::test]
async fn a_hub_that_confirms_nothing_is_refused_before_the_disk_is_full() {
    let limits = NodeLimits { held: 3, ..NodeLimits::default() };
    let site = Site::with(limits).await;
    let (mut hub, _) = site.link(&[]).await;
    site.gate.open(10);
    let mut held = Vec::new();
    for _ in 0..3 {
        let id = hub.call("write", nothing()).await;
        hub.result(id).await;
        held.push(id);
    }
    let fourth = hub.call("write", nothing()).await;
    assert_eq!(failure(hub.result(fourth).await).code, ErrorCode::Overloaded);
    hub.confirm(held[0]).await;
    let fifth = hub.call("write", nothing()).await;
    hub.accepted(fifth).await;
}
