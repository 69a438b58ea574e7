//! A hub that is slow, silent or does not listen at all: what it costs the node, and whom.

use std::time::{Duration, Instant};

use plexus_node::link::LinkError;
use plexus_proto::node::{Frame, Heartbeat};
use serde_json::json;

use super::scripted::{Site, nothing, text, welcome};

#[tokio::test]
async fn a_flood_of_events_is_cut_while_the_hub_does_not_listen_and_the_result_is_not() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    let id = hub.call("write", json!({ "say": "whole", "events": 20_000, "bytes": 1_000 })).await;
    // The tool says all of it though nobody listens: it does not wait for the link.
    site.gate.begun(1).await;
    site.gate.open(1);
    let (mut events, mut last) = (0, 0);
    let outcome = loop {
        match hub.word().await {
            Frame::Event(event) => {
                assert!(event.seq > last, "events come in order");
                (last, events) = (event.seq, events + 1);
            }
            Frame::Result(result) => break result,
            Frame::Ack(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(outcome.call_id, id);
    assert_eq!(text(outcome.outcome), "whole");
    assert!((1..2_000).contains(&events), "{events} events came");
    assert!(last < 20_000, "those at the end were left out");
}

#[tokio::test]
async fn a_hub_that_takes_nothing_holds_up_no_call() {
    let site = Site::new().await;
    let (mut hub, _) = site.link(&[]).await;
    for _ in 0..40 {
        hub.call("write", json!({ "events": 100, "bytes": 1_000 })).await;
    }
    site.gate.begun(40).await;
    site.gate.open(40);
    let mut results = 0;
    while results < 40 {
        if let Frame::Result(_) = hub.word().await {
            results += 1;
        }
    }
}

#[tokio::test]
async fn a_hub_that_falls_silent_is_asked_and_then_given_up() {
    let site = Site::new().await;
    let mut hub = site.dial();
    hub.hello().await;
    hub.send(Frame::Welcome(welcome(100, 3, &[]))).await;
    let begun = Instant::now();
    assert!(matches!(hub.frame().await, Frame::Ping(_)), "it is asked whether it is there");
    let served = hub.end().await;
    assert!(matches!(&served.end, LinkError::Broken(why) if why.contains("not heard")), "{:?}", served.end);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?} is less than may be missed");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_hub_that_is_heard_is_not_given_up() {
    let site = Site::new().await;
    let mut hub = site.dial();
    hub.hello().await;
    hub.send(Frame::Welcome(welcome(200, 2, &[]))).await;
    let begun = Instant::now();
    let mut n = 0;
    while begun.elapsed() < Duration::from_millis(1_500) {
        n += 1;
        hub.send(Frame::Ping(Heartbeat { n })).await;
        let Frame::Pong(pong) = hub.frame().await else { panic!("no answer") };
        assert_eq!(pong.n, n);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    site.gate.open(1);
    let id = hub.call("write", nothing()).await;
    hub.result(id).await;
}
