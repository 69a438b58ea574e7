//! Invalid frames of a hub: the node ignores them or ends the link, and keeps running.

use plexus_node::link::LinkError;
use plexus_proto::CallId;
use plexus_proto::node::{Ack, CancelReason, Frame};

use super::scripted_hub::{TestNode, nothing, welcome};

#[tokio::test]
async fn unsupported_protocol_version_ends_the_link() {
    let test_node = TestNode::new().await;
    let mut hub = test_node.dial();
    hub.hello().await;
    let mut other = welcome(60_000, 3, &[]);
    other.version = 99;
    hub.send(Frame::Welcome(other)).await;
    let served = hub.end().await;
    assert!(matches!(&served.end, LinkError::Invalid(why) if why.contains("version 99")), "{:?}", served.end);
    assert!(served.welcome.is_none());
}

#[tokio::test]
async fn frames_about_unknown_calls_are_ignored() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    hub.accepted(id).await;
    hub.cancel(CallId::new(), CancelReason::Caller).await;
    hub.confirm(CallId::new()).await;
    // A running call has no result that could have been stored.
    hub.send(Frame::Ack(Ack { call_id: id })).await;
    test_node.gate.open(1);
    hub.result(id).await;
    assert_eq!(test_node.on_disk(id).await.as_deref(), Some("finished"));
}

#[tokio::test]
async fn call_before_welcome_is_rejected() {
    let test_node = TestNode::new().await;
    let mut hub = test_node.dial();
    hub.hello().await;
    hub.call("write", nothing()).await;
    assert!(matches!(hub.end().await.end, LinkError::Invalid(_)));
    assert_eq!(test_node.gate.runs(), 0);
}

#[tokio::test]
async fn call_cancelled_before_its_start_is_not_run() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    // Both arrive before the call is on disk.
    let id = hub.call("write", nothing()).await;
    hub.cancel(id, CancelReason::Caller).await;
    let ended = super::scripted_hub::failure(hub.result(id).await);
    assert_eq!(ended.code, plexus_proto::ErrorCode::Cancelled);
    assert_eq!(ended.nothing_ran, test_node.gate.runs() == 0, "the outcome tells whether it ran");
}

#[tokio::test]
async fn probe_is_answered_and_not_recorded() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("probe", nothing()).await;
    assert_eq!(super::scripted_hub::text(hub.result(id).await), "");
    assert_eq!(test_node.count("SELECT count(*) FROM audit").await, 0);
    assert_eq!(test_node.count("SELECT count(*) FROM sessions").await, 0);
    test_node.gate.open(1);
    let id = hub.call("write", nothing()).await;
    hub.result(id).await;
    let actor = "SELECT count(*) FROM audit WHERE actor = 'agent:codex' AND tool = 'write' AND via = 'link'";
    super::scripted_hub::within("the audit entries of the call", async {
        while test_node.count(actor).await < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}
