use futures_util::FutureExt;
use plexus_proto::node::{Bye, Frame, Heartbeat, Received};

use super::{IN_FLIGHT, pair};
use crate::link::LinkError;

fn ping(n: u64) -> Frame {
    Frame::Ping(Heartbeat { n })
}

#[tokio::test]
async fn frames_are_delivered_in_order_before_the_link_ends() {
    let (mut hub, mut node) = pair();
    for n in 0..3 {
        hub.tx.send(&ping(n)).await.unwrap();
    }
    hub.tx.send(&Frame::Bye(Bye { reason: "done".to_owned() })).await.unwrap();
    hub.tx.close().await;
    for n in 0..3 {
        let Ok(Received::Frame(Frame::Ping(ping))) = node.rx.recv().await else { panic!("no ping {n}") };
        assert_eq!(ping.n, n);
    }
    assert!(matches!(node.rx.recv().await, Ok(Received::Frame(Frame::Bye(_)))));
    assert_eq!(node.rx.recv().await.unwrap_err(), LinkError::Closed(None));
}

#[tokio::test]
async fn sender_waits_for_a_slow_receiver() {
    let (mut hub, mut node) = pair();
    for n in 0..IN_FLIGHT as u64 {
        hub.tx.send(&ping(n)).now_or_never().expect("there is room").unwrap();
    }
    assert!(hub.tx.send(&ping(99)).now_or_never().is_none(), "there is no room");
    node.rx.recv().await.unwrap();
    hub.tx.send(&ping(99)).now_or_never().expect("there is room again").unwrap();
}
