//! Stopping a node: which calls end, which are interrupted, and what the hub receives.

use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::node::{Frame, Order};
use serde_json::json;
use tokio::task::JoinSet;

use super::scripted_hub::{TestNode, call, failure, nothing, text, within};

#[tokio::test]
async fn stopping_node_finishes_calls_refuses_new_ones_and_sends_bye_last() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", json!({ "say": "in time" })).await;
    hub.accepted(id).await;
    let node = test_node.node.clone();
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { node.stop(Duration::from_secs(15)).await });
    let Frame::Hello(hello) = hub.next_frame().await else { panic!("the hub is informed") };
    assert!(hello.draining);
    let late = call("write", nothing());
    hub.send(Frame::Call(late.clone())).await;
    let refused = failure(hub.result(late.call_id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::Unavailable, true));
    test_node.gate.open(1);
    assert_eq!(text(hub.result(id).await), "in time");
    assert!(matches!(hub.next_frame().await, Frame::Bye(_)));
    within("the node to stop", stopping.join_next()).await.unwrap().unwrap();
    assert_eq!(test_node.gate.runs(), 1);
}

#[tokio::test]
async fn calls_that_do_not_end_in_time_are_interrupted() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    test_node.gate.started(1).await;
    let node = test_node.node.clone();
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { node.stop(Duration::from_millis(50)).await });
    let interrupted = failure(hub.result(id).await);
    assert_eq!((interrupted.code, interrupted.nothing_ran), (ErrorCode::Interrupted, false));
    assert!(matches!(hub.next_frame().await, Frame::Bye(_)));
    test_node.gate.cancelled(1).await;
    within("the node to stop", stopping.join_next()).await.unwrap().unwrap();
    assert_eq!(test_node.on_disk(id).await.as_deref(), Some("finished"), "it is not confirmed");
}

#[tokio::test]
async fn node_without_a_link_stops() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    test_node.gate.started(1).await;
    hub.cut().await;
    within("the node to stop", test_node.node.stop(Duration::from_millis(50))).await;
    let (mut hub, hello) = test_node.link(&[(id, Order::Keep)]).await;
    assert!(hello.draining);
    assert_eq!(failure(hub.result(id).await).code, ErrorCode::Interrupted);
}
