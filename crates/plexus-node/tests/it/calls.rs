//! Calls over one link: when they are on disk, and how they end.

use plexus_node::NodeLimits;
use plexus_proto::ErrorCode;
use plexus_proto::node::{CancelReason, Frame};
use serde_json::json;

use super::scripted_hub::{TestNode, call, failure, nothing, text};

#[tokio::test]
async fn call_is_stored_before_it_starts_until_its_result_is_confirmed() {
    let test_node = TestNode::new().await;
    let (mut hub, hello) = test_node.link(&[]).await;
    assert!(hello.calls.is_empty());
    assert!(hello.tools.iter().any(|tool| tool.name == "write"), "{:?}", hello.tools);
    assert!(hello.tools.iter().all(|tool| tool.name != "probe"), "the probe is not listed");
    let id = hub.call("write", json!({ "say": "done" })).await;
    test_node.gate.started(1).await;
    assert_eq!(test_node.on_disk(id).await.as_deref(), Some("running"));
    hub.accepted(id).await;
    test_node.gate.open(1);
    assert_eq!(text(hub.result(id).await), "done");
    assert_eq!(test_node.on_disk(id).await.as_deref(), Some("finished"));
    hub.confirm(id).await;
    test_node.deleted(id).await;
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn read_only_call_is_not_stored_and_needs_no_confirmation() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("look", json!({ "say": "seen" })).await;
    test_node.gate.started(1).await;
    assert_eq!(test_node.on_disk(id).await, None);
    test_node.gate.open(1);
    let Frame::Result(result) = hub.next_frame().await else { panic!("the result comes first") };
    assert_eq!(text(result.outcome), "seen");
    hub.cut().await;
    let (_hub, hello) = test_node.link(&[]).await;
    assert!(hello.calls.is_empty(), "{:?}", hello.calls);
}

#[tokio::test]
async fn duplicate_call_runs_once() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let call = call("write", json!({ "say": "once" }));
    let id = call.call_id;
    hub.send(Frame::Call(call.clone())).await;
    hub.send(Frame::Call(call.clone())).await;
    hub.accepted(id).await;
    test_node.gate.started(1).await;
    hub.send(Frame::Call(call.clone())).await;
    test_node.gate.open(3);
    assert_eq!(text(hub.result(id).await), "once");
    // It has ended and is unconfirmed: sending the call again returns the result again.
    hub.send(Frame::Call(call)).await;
    assert_eq!(text(hub.result(id).await), "once");
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn tool_failure_is_stored_as_a_result() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    test_node.gate.open(1);
    let id = hub.call("write", json!({ "say": "no such file", "fail": true })).await;
    let failure = failure(hub.result(id).await);
    assert_eq!((failure.code, failure.message.as_str()), (ErrorCode::ToolFailed, "no such file"));
    assert!(!failure.nothing_ran);
    assert_eq!(test_node.on_disk(id).await.as_deref(), Some("finished"));
}

#[tokio::test]
async fn cancelled_call_is_stopped_and_ends_as_cancelled() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let (one, other) = (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    test_node.gate.started(2).await;
    hub.accepted(one).await;
    hub.accepted(other).await;
    hub.cancel(one, CancelReason::Caller).await;
    assert_eq!(failure(hub.result(one).await).code, ErrorCode::Cancelled);
    hub.cancel(other, CancelReason::Deadline).await;
    assert_eq!(failure(hub.result(other).await).code, ErrorCode::DeadlineExceeded);
    test_node.gate.cancelled(2).await;
}

#[tokio::test]
async fn node_enforces_the_deadline_itself() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let mut call = call("write", nothing());
    call.deadline_ms = 50;
    let id = call.call_id;
    hub.send(Frame::Call(call)).await;
    assert_eq!(failure(hub.result(id).await).code, ErrorCode::DeadlineExceeded);
    test_node.gate.cancelled(1).await;
}

#[tokio::test]
async fn invalid_call_is_refused_and_not_run() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let unknown = hub.call("launch", nothing()).await;
    let unknown = failure(hub.result(unknown).await);
    assert_eq!((unknown.code, unknown.nothing_ran), (ErrorCode::UnknownTool, true));
    let misspelt = hub.call("write", json!({ "sya": 1 })).await;
    assert_eq!(failure(hub.result(misspelt).await).code, ErrorCode::InvalidArguments);
    let mut unknown_caller = call("write", nothing());
    unknown_caller.caller.subject = "whoever".to_owned();
    let id = unknown_caller.call_id;
    hub.send(Frame::Call(unknown_caller)).await;
    let refused = failure(hub.result(id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::InvalidRequest, true));
    assert_eq!(test_node.gate.runs(), 0);
}

#[tokio::test]
async fn call_above_the_concurrency_limit_is_refused() {
    let limits = NodeLimits { running: 2, ..NodeLimits::default() };
    let test_node = TestNode::with(limits).await;
    let (mut hub, _) = test_node.link(&[]).await;
    let (one, other) = (hub.call("write", nothing()).await, hub.call("write", nothing()).await);
    hub.accepted(one).await;
    hub.accepted(other).await;
    let third = call("write", nothing());
    hub.send(Frame::Call(third.clone())).await;
    let refused = failure(hub.result(third.call_id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::Overloaded, true));
    assert_eq!(test_node.on_disk(third.call_id).await, None);
    test_node.gate.open(3);
    hub.result(one).await;
    hub.result(other).await;
    hub.send(Frame::Call(third.clone())).await;
    hub.result(third.call_id).await;
    assert_eq!(test_node.gate.runs(), 3);
}

#[tokio::test]
async fn unconfirmed_calls_are_limited() {
    let limits = NodeLimits { unconfirmed: 3, ..NodeLimits::default() };
    let test_node = TestNode::with(limits).await;
    let (mut hub, _) = test_node.link(&[]).await;
    test_node.gate.open(10);
    let mut accepted_calls = Vec::new();
    for _ in 0..3 {
        let id = hub.call("write", nothing()).await;
        hub.result(id).await;
        accepted_calls.push(id);
    }
    let fourth = hub.call("write", nothing()).await;
    assert_eq!(failure(hub.result(fourth).await).code, ErrorCode::Overloaded);
    hub.confirm(accepted_calls[0]).await;
    let fifth = hub.call("write", nothing()).await;
    hub.accepted(fifth).await;
}
