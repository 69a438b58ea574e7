//! What is left out, what never is, and in which order the rest comes.

use futures_util::FutureExt;
use plexus_proto::CallId;
use plexus_proto::node::{CallEvent, CallOutcome, CallResult, Output};
use serde_json::value::RawValue;

use super::{EVENT_BYTES, EVENTS, Item, Outbox, REFUSALS};

fn event(call_id: CallId, seq: u64, payload: &str) -> CallEvent {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    CallEvent { call_id, seq, kind: "progress".to_owned(), payload }
}

fn next(outbox: &Outbox) -> Option<Item> {
    outbox.next().now_or_never()
}

#[test]
fn a_flood_of_events_is_cut_and_counted_and_the_result_comes_after_them() {
    let (outbox, call) = (Outbox::default(), CallId::new());
    let kept = (0..1_000).filter(|seq| outbox.event(event(call, *seq, "{}"))).count();
    assert_eq!(kept, EVENTS);
    assert_eq!(outbox.left_out(), 1_000 - EVENTS as u64);
    outbox.result(call);
    for _ in 0..EVENTS {
        assert!(matches!(next(&outbox), Some(Item::Event(_))));
    }
    assert!(matches!(next(&outbox), Some(Item::Result(id)) if id == call));
    assert!(next(&outbox).is_none());
    assert!(outbox.event(event(call, 1_001, "{}")), "there is room again");
}

#[test]
fn long_events_are_bounded_by_their_bytes() {
    let (outbox, call) = (Outbox::default(), CallId::new());
    let long = format!("{:?}", "x".repeat(EVENT_BYTES / 4));
    let kept = (0..10).filter(|seq| outbox.event(event(call, *seq, &long))).count();
    assert_eq!(kept, 3);
}

#[test]
fn a_sign_of_life_goes_before_all_that_waits_and_bye_after_it() {
    let (outbox, call) = (Outbox::default(), CallId::new());
    outbox.bye("done");
    outbox.ack(call);
    outbox.pong(6);
    outbox.pong(7);
    assert!(matches!(next(&outbox), Some(Item::Pong(7))), "only the newest is worth sending");
    assert!(matches!(next(&outbox), Some(Item::Ack(_))));
    assert!(matches!(next(&outbox), Some(Item::Bye(_))));
    assert!(next(&outbox).is_none());
}

#[test]
fn who_refuses_waits_for_who_does_not_listen() {
    let outbox = Outbox::default();
    let refused = || CallResult {
        call_id: CallId::new(),
        outcome: CallOutcome::Output(Output { text: String::new(), structured: None }),
    };
    for _ in 0..REFUSALS {
        outbox.refuse(refused()).now_or_never().expect("there is room");
    }
    let mut waiting = Box::pin(outbox.refuse(refused()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(next(&outbox).is_some());
    waiting.as_mut().now_or_never().expect("one was taken");
}

#[test]
fn a_result_that_is_asked_for_twice_waits_once() {
    let (outbox, call) = (Outbox::default(), CallId::new());
    for _ in 0..1_000 {
        outbox.result(call);
    }
    assert!(matches!(next(&outbox), Some(Item::Result(_))));
    assert!(next(&outbox).is_none());
    outbox.result(call);
    assert!(matches!(next(&outbox), Some(Item::Result(_))), "it was taken, so it may be asked for again");
}
