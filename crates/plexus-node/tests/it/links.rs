//! What a hub says that it should not: the node passes it over or ends the link, and lives on.

use plexus_node::link::LinkError;
use plexus_proto::CallId;
use plexus_proto::node::{Ack, CancelReason, Frame};

use super::scripted::{Site, nothing, welcome};

#[tokio::test]
async fn a_hub_of_another_version_is_told_apart() {
    let site = Site::new().await;
    let mut hub = site.dial();
    hub.hello().await;
    let mut other = welcome(60_000, 3, &[]);
    other.version = 99;
    hub.send(Frame::Welcome(other)).await;
    let served = hub.end().await;
    assert!(matches!(&served.end, LinkError::Invalid(why) if why.contains("version 99")), "{:?}", served.end);
    assert!(served.welcome.is_none());
}

#[tokio::test]
async fn words_about_calls_that_the_node_does_not_have_change_nothing() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", nothing()).await;
    hub.accepted(id).await;
    hub.cancel(CallId::new(), CancelReason::Caller).await;
    hub.confirm(CallId::new()).await;
    // One that runs has no result that could have been stored.
    hub.send(Frame::Ack(Ack { call_id: id })).await;
    site.gate.open(1);
    hub.result(id).await;
    assert_eq!(site.on_disk(id).await.as_deref(), Some("finished"));
}

#[tokio::test]
async fn a_call_before_the_welcome_is_not_taken() {
    let site = Site::new().await;
    let mut hub = site.dial();
    hub.hello().await;
    hub.call("write", nothing()).await;
    assert!(matches!(hub.end().await.end, LinkError::Invalid(_)));
    assert_eq!(site.gate.runs(), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_began_is_not_begun() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    // Both are there before the call is on disk.
    let id = hub.call("write", nothing()).await;
    hub.cancel(id, CancelReason::Caller).await;
    let ended = super::scripted::failure(hub.result(id).await);
    assert_eq!(ended.code, plexus_proto::ErrorCode::Cancelled);
    assert_eq!(ended.nothing_ran, site.gate.runs() == 0, "what is said of it is so");
}

#[tokio::test]
async fn the_probe_is_answered_and_leaves_nothing_on_disk() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("probe", nothing()).await;
    assert_eq!(super::scripted::text(hub.result(id).await), "");
    assert_eq!(site.count("SELECT count(*) FROM audit").await, 0);
    assert_eq!(site.count("SELECT count(*) FROM sessions").await, 0);
    site.gate.open(1);
    let id = hub.call("write", nothing()).await;
    hub.result(id).await;
    let actor = "SELECT count(*) FROM audit WHERE actor = 'agent:codex' AND tool = 'write' AND via = 'link'";
    super::scripted::within("the record of who did what here", async {
        while site.count(actor).await < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}
