//! A slow, silent or non-reading hub, and its effect on the node.

use std::time::{Duration, Instant};

use plexus_node::link::LinkError;
use plexus_proto::node::{Frame, Heartbeat};
use serde_json::json;

use super::scripted_hub::{TestNode, nothing, text, welcome};

#[tokio::test]
async fn excess_events_are_dropped_but_never_the_result() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    let id = hub.call("write", json!({ "say": "whole", "events": 20_000, "bytes": 1_000 })).await;
    // The tool does not wait for the link: it emits all events although the hub does not read.
    test_node.gate.started(1).await;
    test_node.gate.open(1);
    let (mut events, mut last) = (0, 0);
    let outcome = loop {
        match hub.next_frame().await {
            Frame::Event(event) => {
                assert!(event.seq > last, "events arrive in order");
                (last, events) = (event.seq, events + 1);
            }
            Frame::Result(result) => break result,
            Frame::Ack(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(outcome.call_id, id);
    assert_eq!(text(outcome.outcome), "whole");
    assert!((1..2_000).contains(&events), "{events} events arrived");
    assert!(last < 20_000, "the last events were dropped");
}

#[tokio::test]
async fn hub_that_does_not_read_delays_no_call() {
    let test_node = TestNode::new().await;
    let (mut hub, _) = test_node.link(&[]).await;
    for _ in 0..40 {
        hub.call("write", json!({ "events": 100, "bytes": 1_000 })).await;
    }
    test_node.gate.started(40).await;
    test_node.gate.open(40);
    let mut results = 0;
    while results < 40 {
        if let Frame::Result(_) = hub.next_frame().await {
            results += 1;
        }
    }
}

#[tokio::test]
async fn silent_hub_is_pinged_and_then_disconnected() {
    let test_node = TestNode::new().await;
    let mut hub = test_node.dial();
    hub.hello().await;
    hub.send(Frame::Welcome(welcome(100, 3, &[]))).await;
    let started = Instant::now();
    assert!(matches!(hub.frame().await, Frame::Ping(_)), "it is pinged");
    let served = hub.end().await;
    assert!(
        matches!(&served.end, LinkError::Broken(why) if why.contains("nothing was received")),
        "{:?}",
        served.end
    );
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?} is less than the allowed silence");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn live_hub_is_not_disconnected() {
    let test_node = TestNode::new().await;
    let mut hub = test_node.dial();
    hub.hello().await;
    hub.send(Frame::Welcome(welcome(200, 2, &[]))).await;
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < Duration::from_millis(1_500) {
        n += 1;
        hub.send(Frame::Ping(Heartbeat { n })).await;
        let Frame::Pong(pong) = hub.frame().await else { panic!("no answer") };
        assert_eq!(pong.n, n);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    test_node.gate.open(1);
    let id = hub.call("write", nothing()).await;
    hub.result(id).await;
}
