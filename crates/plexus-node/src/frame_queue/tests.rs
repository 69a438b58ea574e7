//! What is dropped, what is never dropped, and the order of the rest.

use futures_util::FutureExt;
use plexus_proto::CallId;
use plexus_proto::node::{CallEvent, CallOutcome, CallResult, Output};
use serde_json::value::RawValue;

use super::{FrameQueue, MAX_EVENT_BYTES, MAX_EVENTS, MAX_REFUSALS, QueuedFrame};

fn event(call_id: CallId, seq: u64, payload: &str) -> CallEvent {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    CallEvent { call_id, seq, kind: "progress".to_owned(), payload }
}

fn next(frames: &FrameQueue) -> Option<QueuedFrame> {
    frames.next().now_or_never()
}

#[test]
fn excess_events_are_dropped_and_counted_and_the_result_follows() {
    let (frames, call) = (FrameQueue::default(), CallId::new());
    let queued = (0..1_000).filter(|seq| frames.event(event(call, *seq, "{}"))).count();
    assert_eq!(queued, MAX_EVENTS);
    assert_eq!(frames.dropped_events(), 1_000 - MAX_EVENTS as u64);
    frames.result(call);
    for _ in 0..MAX_EVENTS {
        assert!(matches!(next(&frames), Some(QueuedFrame::Event(_))));
    }
    assert!(matches!(next(&frames), Some(QueuedFrame::Result(id)) if id == call));
    assert!(next(&frames).is_none());
    assert!(frames.event(event(call, 1_001, "{}")), "there is room again");
}

#[test]
fn queued_event_bytes_are_limited() {
    let (frames, call) = (FrameQueue::default(), CallId::new());
    let long = format!("{:?}", "x".repeat(MAX_EVENT_BYTES / 4));
    let queued = (0..10).filter(|seq| frames.event(event(call, *seq, &long))).count();
    assert_eq!(queued, 3);
}

#[test]
fn heartbeats_are_sent_first_and_bye_last() {
    let (frames, call) = (FrameQueue::default(), CallId::new());
    frames.bye("done");
    frames.ack(call);
    frames.pong(6);
    frames.pong(7);
    assert!(matches!(next(&frames), Some(QueuedFrame::Pong(7))), "only the newest is sent");
    assert!(matches!(next(&frames), Some(QueuedFrame::Ack(_))));
    assert!(matches!(next(&frames), Some(QueuedFrame::Bye(_))));
    assert!(next(&frames).is_none());
}

#[test]
fn refusals_wait_for_a_hub_that_does_not_read() {
    let frames = FrameQueue::default();
    let refused = || CallResult {
        call_id: CallId::new(),
        outcome: CallOutcome::Output(Output { text: String::new(), structured: None }),
    };
    for _ in 0..MAX_REFUSALS {
        frames.refuse(refused()).now_or_never().expect("there is room");
    }
    let mut waiting = Box::pin(frames.refuse(refused()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(next(&frames).is_some());
    waiting.as_mut().now_or_never().expect("one was taken");
}

#[test]
fn repeatedly_requested_result_is_queued_once() {
    let (frames, call) = (FrameQueue::default(), CallId::new());
    for _ in 0..1_000 {
        frames.result(call);
    }
    assert!(matches!(next(&frames), Some(QueuedFrame::Result(_))));
    assert!(next(&frames).is_none());
    frames.result(call);
    assert!(
        matches!(next(&frames), Some(QueuedFrame::Result(_))),
        "it was sent, so it can be requested again"
    );
}
