//! What is dropped, what is never dropped, and the order of the rest.

use futures_util::FutureExt;
use plexus_proto::CallId;
use plexus_proto::node::{CallEvent, CallOutcome, CallResult, Output};
use serde_json::value::RawValue;

use super::{LinkOutbox, MAX_EVENT_BYTES, MAX_EVENTS, MAX_REFUSALS, OutboxItem};

fn event(call_id: CallId, seq: u64, payload: &str) -> CallEvent {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    CallEvent { call_id, seq, kind: "progress".to_owned(), payload }
}

fn next(outbox: &LinkOutbox) -> Option<OutboxItem> {
    outbox.next().now_or_never()
}

#[test]
fn excess_events_are_dropped_and_counted_and_the_result_follows() {
    let (outbox, call) = (LinkOutbox::default(), CallId::new());
    let queued = (0..1_000).filter(|seq| outbox.event(event(call, *seq, "{}"))).count();
    assert_eq!(queued, MAX_EVENTS);
    assert_eq!(outbox.dropped_events(), 1_000 - MAX_EVENTS as u64);
    outbox.result(call);
    for _ in 0..MAX_EVENTS {
        assert!(matches!(next(&outbox), Some(OutboxItem::Event(_))));
    }
    assert!(matches!(next(&outbox), Some(OutboxItem::Result(id)) if id == call));
    assert!(next(&outbox).is_none());
    assert!(outbox.event(event(call, 1_001, "{}")), "there is room again");
}

#[test]
fn queued_event_bytes_are_limited() {
    let (outbox, call) = (LinkOutbox::default(), CallId::new());
    let long = format!("{:?}", "x".repeat(MAX_EVENT_BYTES / 4));
    let queued = (0..10).filter(|seq| outbox.event(event(call, *seq, &long))).count();
    assert_eq!(queued, 3);
}

#[test]
fn heartbeats_are_sent_first_and_bye_last() {
    let (outbox, call) = (LinkOutbox::default(), CallId::new());
    outbox.bye("done");
    outbox.ack(call);
    outbox.pong(6);
    outbox.pong(7);
    assert!(matches!(next(&outbox), Some(OutboxItem::Pong(7))), "only the newest is sent");
    assert!(matches!(next(&outbox), Some(OutboxItem::Ack(_))));
    assert!(matches!(next(&outbox), Some(OutboxItem::Bye(_))));
    assert!(next(&outbox).is_none());
}

#[test]
fn refusals_wait_for_a_hub_that_does_not_read() {
    let outbox = LinkOutbox::default();
    let refused = || CallResult {
        call_id: CallId::new(),
        outcome: CallOutcome::Output(Output { text: String::new(), structured: None }),
    };
    for _ in 0..MAX_REFUSALS {
        outbox.refuse(refused()).now_or_never().expect("there is room");
    }
    let mut waiting = Box::pin(outbox.refuse(refused()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(next(&outbox).is_some());
    waiting.as_mut().now_or_never().expect("one was taken");
}

#[test]
fn repeatedly_requested_result_is_queued_once() {
    let (outbox, call) = (LinkOutbox::default(), CallId::new());
    for _ in 0..1_000 {
        outbox.result(call);
    }
    assert!(matches!(next(&outbox), Some(OutboxItem::Result(_))));
    assert!(next(&outbox).is_none());
    outbox.result(call);
    assert!(
        matches!(next(&outbox), Some(OutboxItem::Result(_))),
        "it was sent, so it can be requested again"
    );
}
