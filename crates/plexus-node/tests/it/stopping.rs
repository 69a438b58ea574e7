//! A node that is told to stop: what ends, what is handed back, and what the hub hears.

use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::node::{Frame, Order};
use serde_json::json;
use tokio::task::JoinSet;

use super::scripted::{Site, call, failure, nothing, text, within};

#[tokio::test]
async fn what_runs_may_end_what_comes_is_refused_and_bye_is_the_last_word() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", json!({ "say": "in time" })).await;
    hub.accepted(id).await;
    let node = site.node.clone();
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { node.stop(Duration::from_secs(15)).await });
    let Frame::Hello(hello) = hub.word().await else { panic!("the hub is told") };
    assert!(hello.draining);
    let late = call("write", nothing());
    hub.send(Frame::Call(late.clone())).await;
    let refused = failure(hub.result(late.call_id).await);
    assert_eq!((refused.code, refused.nothing_ran), (ErrorCode::Unavailable, true));
    site.gate.open(1);
    assert_eq!(text(hub.result(id).await), "in time");
    assert!(matches!(hub.word().await, Frame::Bye(_)));
    within("the node to stop", stopping.join_next()).await.unwrap().unwrap();
    assert_eq!(site.gate.runs(), 1);
}

#[tokio::test]
async fn what_does_not_end_is_handed_back_as_interrupted() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    site.gate.begun(1).await;
    let node = site.node.clone();
    let mut stopping = JoinSet::new();
    stopping.spawn(async move { node.stop(Duration::from_millis(50)).await });
    let interrupted = failure(hub.result(id).await);
    assert_eq!((interrupted.code, interrupted.nothing_ran), (ErrorCode::Interrupted, false));
    assert!(matches!(hub.word().await, Frame::Bye(_)));
    site.gate.cancelled(1).await;
    within("the node to stop", stopping.join_next()).await.unwrap().unwrap();
    assert_eq!(site.on_disk(id).await.as_deref(), Some("finished"), "it was not confirmed");
}

#[tokio::test]
async fn a_node_without_a_link_stops_too() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    site.gate.begun(1).await;
    hub.cut().await;
    within("the node to stop", site.node.stop(Duration::from_millis(50))).await;
    let (mut hub, hello) = site.link(&[(id, Order::Keep)]).await;
    assert!(hello.draining);
    assert_eq!(failure(hub.result(id).await).code, ErrorCode::Interrupted);
}
