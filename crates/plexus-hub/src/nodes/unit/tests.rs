//! Outcomes of calls when links break and machines reconnect, tested on the call table alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use plexus_proto::node::{
    Call, CallEvent, CallOutcome, CallResult, Caller, Dial, Frame, HeldState, Hello, InFlight, Order, Output,
};
use plexus_proto::{CallId, ErrorCode, NodeId, SessionId, Timestamp};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use uuid::Uuid;

use super::{Admitted, CallEnd, Cut, NodeReport, NodeSettings, Presence, Unit};
use crate::nodes::call::{EventSink, OutgoingCall, Undelivered};

const MOST: usize = 4;

fn unit() -> Unit {
    let settings = NodeSettings { name: "nas".to_owned(), labels: BTreeMap::new(), draining: false };
    Unit::new(NodeId::new(), settings, NodeReport::default(), 0, None)
}

fn call(keep: bool) -> OutgoingCall {
    let call = Call {
        call_id: CallId::new(),
        tool: "terminal".to_owned(),
        arguments: RawValue::from_string("{}".to_owned()).unwrap(),
        session_id: SessionId::new(),
        caller: Caller { subject: "agent:codex".to_owned(), profile: None },
        deadline_ms: 60_000,
        keep,
        idempotency_key: None,
        traceparent: None,
    };
    OutgoingCall { call, queue: false, on_sent: None }
}

fn nobody() -> EventSink {
    Arc::new(|_| {})
}

fn hello(unit: &Unit, store: Uuid, calls: &[(CallId, HeldState)]) -> Hello {
    Hello {
        versions: vec![1],
        node_id: unit.id,
        store_id: store,
        dial: None,
        version: "0".to_owned(),
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
        hostname: None,
        sandbox: None,
        tools: vec![],
        mcp_servers: vec![],
        profiles: vec![],
        labels: BTreeMap::new(),
        calls: calls.iter().map(|(call_id, state)| InFlight { call_id: *call_id, state: *state }).collect(),
        draining: false,
    }
}

/// A machine that dials repeatedly.
struct Machine {
    unit: Unit,
    store: Uuid,
    epoch: u64,
}

impl Machine {
    fn new() -> Self {
        Self { unit: unit(), store: Uuid::now_v7(), epoch: 0 }
    }

    fn dial(&mut self, calls: &[(CallId, HeldState)]) -> Admitted {
        self.epoch += 1;
        let hello = hello(&self.unit, self.store, calls);
        self.unit.admit(self.epoch, &hello, "ws", 16, Timestamp::now()).expect("the link is admitted")
    }

    /// The link breaks; the machine is expected to reconnect.
    fn lose(&self) {
        assert!(self.unit.ended(self.epoch, Presence::Expected));
    }

    fn begin(&self, call: &OutgoingCall) -> oneshot::Receiver<CallEnd> {
        self.unit.begin(call.clone(), nobody(), MOST).expect("the call is accepted")
    }

    fn result(&self, call: CallId) -> bool {
        let outcome = done();
        let mut state = self.unit.lock_if_current(self.epoch).expect("the link is current");
        state.result(CallResult { call_id: call, outcome }).is_ok()
    }
}

fn done() -> CallOutcome {
    CallOutcome::Output(Output { text: "done".to_owned(), structured: None })
}

fn sent(admitted: &mut Admitted) -> Vec<&'static str> {
    let mut kinds: Vec<_> = admitted.reconciled.frames.drain(..).map(|frame| frame.kind()).collect();
    while let Ok(frame) = admitted.frames.try_recv() {
        kinds.push(frame.kind());
    }
    kinds
}

fn text(end: &mut oneshot::Receiver<CallEnd>) -> String {
    match end.try_recv().expect("the call has ended") {
        Ok(CallOutcome::Output(output)) => output.text,
        Ok(CallOutcome::Failed(failure)) => failure.code.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

fn order(admitted: &Admitted, call: CallId) -> Order {
    admitted.reconciled.orders.iter().find(|order| order.call_id == call).expect("an order for it").order
}

#[test]
fn result_is_acknowledged_only_after_commit() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let call = call(true);
    let mut end = machine.begin(&call);
    assert_eq!(sent(&mut link), ["call"]);
    assert!(machine.result(call.call.call_id));
    assert_eq!(text(&mut end), "done");
    assert_eq!(sent(&mut link), [""; 0], "nothing is committed yet");
    machine.unit.settled(call.call.call_id);
    assert_eq!(sent(&mut link), ["ack"]);
    assert_eq!(machine.unit.lock().in_flight(), 0);
}

#[test]
fn overtaken_hello_is_ignored_while_the_machine_is_present() {
    let mut machine = Machine::new();
    let dialed =
        |start, n| Hello { dial: Some(Dial { start, n }), ..hello(&machine.unit, machine.store, &[]) };
    let (older, newer) = (dialed(2, 9), dialed(3, 1));
    let admit = |machine: &mut Machine, hello: &Hello| {
        machine.epoch += 1;
        machine.unit.admit(machine.epoch, hello, "ws", 16, Timestamp::now())
    };
    let mut link = admit(&mut machine, &newer).expect("the link is admitted");
    let linked = machine.epoch;
    let call = call(true);
    let mut end = machine.begin(&call);
    assert_eq!(sent(&mut link), ["call"]);
    for held_up in [&older, &newer] {
        assert!(machine.unit.is_outdated(held_up) && admit(&mut machine, held_up).is_none());
        assert_eq!(link.cut.try_recv(), Err(TryRecvError::Empty), "the newer link stays open");
    }
    assert!(machine.unit.lock_if_current(linked).is_some());
    assert_eq!(end.try_recv().unwrap_err(), TryRecvError::Empty, "its call continues");
    assert!(machine.unit.ended(linked, Presence::Expected));
    assert!(admit(&mut machine, &older).is_none(), "an expected machine has dialed since");
    // A store restored from a backup continues with an older counter.
    assert!(machine.unit.declare_offline(linked, "it is not linked", Timestamp::now()));
    assert!(admit(&mut machine, &older).is_some());
}

#[test]
fn waiting_call_is_refused_when_the_machine_returns_draining() {
    for by_itself in [true, false] {
        let mut machine = Machine::new();
        machine.dial(&[]);
        machine.lose();
        let (call, queued) = (call(true), OutgoingCall { queue: true, ..call(true) });
        let (mut end, mut waits) = (machine.begin(&call), machine.begin(&queued));
        if by_itself {
            machine.epoch += 1;
            let hello = Hello { draining: true, ..hello(&machine.unit, machine.store, &[]) };
            machine
                .unit
                .admit(machine.epoch, &hello, "ws", 16, Timestamp::now())
                .expect("the link is admitted");
        } else {
            let settings = NodeSettings { draining: true, ..machine.unit.lock().settings.clone() };
            assert!(machine.unit.changed(settings));
        }
        assert_eq!(
            end.try_recv().expect("the call has ended").unwrap_err(),
            Undelivered::Draining,
            "{by_itself}"
        );
        assert_eq!(waits.try_recv().unwrap_err(), TryRecvError::Empty, "a queued call may wait");
    }
}

#[test]
fn call_not_accepted_by_the_machine_is_sent_again() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let call = call(true);
    let mut end = machine.begin(&call);
    assert_eq!(sent(&mut link), ["call"]);
    machine.lose();
    let mut link = machine.dial(&[]);
    assert_eq!(sent(&mut link), ["call"]);
    assert!(machine.result(call.call.call_id));
    assert_eq!(text(&mut end), "done");
}

#[test]
fn call_held_by_the_machine_is_not_sent_again() {
    for state in [HeldState::Running, HeldState::Finished, HeldState::Interrupted] {
        let mut machine = Machine::new();
        drop(machine.dial(&[]));
        let call = call(true);
        let mut end = machine.begin(&call);
        machine.lose();
        let id = call.call.call_id;
        let mut link = machine.dial(&[(id, state)]);
        assert_eq!(order(&link, id), Order::Keep, "{state:?}");
        assert_eq!(sent(&mut link), [""; 0], "{state:?}");
        assert_eq!(end.try_recv().unwrap_err(), TryRecvError::Empty);
        assert!(machine.result(id));
        assert_eq!(text(&mut end), "done");
    }
}

#[test]
fn accepted_call_missing_from_hello_is_interrupted() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let call = call(true);
    let mut end = machine.begin(&call);
    machine.unit.lock_if_current(machine.epoch).unwrap().accepted(call.call.call_id);
    machine.lose();
    let mut link = machine.dial(&[]);
    assert_eq!(sent(&mut link), [""; 0]);
    assert_eq!(text(&mut end), "interrupted");
}

#[test]
fn call_sent_to_another_store_is_interrupted() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let call = call(true);
    let mut end = machine.begin(&call);
    machine.lose();
    machine.store = Uuid::now_v7();
    let mut link = machine.dial(&[]);
    assert_eq!(sent(&mut link), [""; 0]);
    assert_eq!(text(&mut end), "interrupted");
}

#[test]
fn read_only_call_is_sent_to_any_store() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let call = call(false);
    let mut end = machine.begin(&call);
    machine.lose();
    machine.store = Uuid::now_v7();
    let mut link = machine.dial(&[]);
    assert_eq!(sent(&mut link), ["call"]);
    assert!(machine.result(call.call.call_id));
    assert_eq!(text(&mut end), "done");
    assert_eq!(machine.unit.lock().in_flight(), 0, "it is not stored anywhere");
}

#[test]
fn unwanted_calls_are_cancelled_or_forgotten() {
    let mut machine = Machine::new();
    let (running, finished) = (CallId::new(), CallId::new());
    let link = machine.dial(&[(running, HeldState::Running), (finished, HeldState::Finished)]);
    assert_eq!(order(&link, running), Order::Cancel);
    assert_eq!(order(&link, finished), Order::Forget);
}

#[test]
fn delivered_result_is_not_delivered_again() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let call = call(true);
    let mut end = machine.begin(&call);
    let id = call.call.call_id;
    assert!(machine.result(id));
    machine.lose();
    let mut link = machine.dial(&[(id, HeldState::Finished)]);
    assert_eq!(order(&link, id), Order::Keep, "its end is not committed yet");
    assert!(machine.result(id));
    assert_eq!(text(&mut end), "done");
    machine.unit.settled(id);
    assert_eq!(sent(&mut link), ["ack"]);
}

#[test]
fn abandoned_call_is_cancelled_and_acknowledged_after_commit() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let call = call(true);
    let id = call.call.call_id;
    drop(machine.begin(&call));
    assert!(machine.unit.abandon(id), "the call had been sent");
    assert_eq!(sent(&mut link), ["call", "cancel"]);
    assert!(machine.result(id));
    assert_eq!(sent(&mut link), [""; 0], "nothing is committed yet");
    machine.unit.settled(id);
    assert_eq!(sent(&mut link), ["ack"]);
}

#[test]
fn call_abandoned_while_offline_is_cancelled_on_reconnect() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let call = call(true);
    let id = call.call.call_id;
    drop(machine.begin(&call));
    machine.lose();
    assert!(machine.unit.abandon(id));
    // Its end is not committed, so the machine must not forget it.
    let mut link = machine.dial(&[(id, HeldState::Running)]);
    assert_eq!(order(&link, id), Order::Keep);
    assert_eq!(sent(&mut link), ["cancel"]);
    machine.unit.settled(id);
    assert!(!machine.result(id), "the late result is unwanted");
    assert_eq!(sent(&mut link), ["ack"]);
}

#[test]
fn abandoning_an_unsent_call_reports_not_sent() {
    let machine = Machine::new();
    machine.unit.lock().presence = Presence::Expected;
    let call = call(true);
    drop(machine.begin(&call));
    assert!(!machine.unit.abandon(call.call.call_id));
}

#[test]
fn call_of_an_earlier_process_is_concluded_and_acknowledged() {
    let mut machine = Machine::new();
    let id = CallId::new();
    machine.unit.adopt(id, Some(machine.store));
    let mut link = machine.dial(&[(id, HeldState::Finished)]);
    assert_eq!(order(&link, id), Order::Keep);
    let mut state = machine.unit.lock_if_current(machine.epoch).unwrap();
    let outcome = state.result(CallResult { call_id: id, outcome: done() }).unwrap();
    assert!(outcome.is_some(), "the call must be concluded");
    let again = state.result(CallResult { call_id: id, outcome: done() }).unwrap();
    assert!(again.is_none(), "once");
    drop(state);
    assert_eq!(sent(&mut link), [""; 0]);
    machine.unit.settled(id);
    assert_eq!(sent(&mut link), ["ack"]);
}

#[test]
fn unsent_call_of_an_earlier_process_is_recorded_before_sending() {
    let mut machine = Machine::new();
    let (held, never, waits) = (CallId::new(), CallId::new(), CallId::new());
    machine.unit.adopt(held, Some(machine.store));
    machine.unit.adopt(never, Some(machine.store));
    machine.unit.adopt(waits, None);
    let mut link = machine.dial(&[(held, HeldState::Running)]);
    let mut to_record = link.reconciled.to_record.clone();
    to_record.sort();
    assert_eq!(to_record, [never, waits]);
    assert_eq!(sent(&mut link), [""; 0]);
    let mut read = call(true);
    read.call.call_id = never;
    machine.unit.mark_recorded(machine.epoch, never, Some(&read));
    assert_eq!(sent(&mut link), ["call"]);
    machine.unit.mark_recorded(machine.epoch - 1, waits, Some(&read));
    assert_eq!(sent(&mut link), [""; 0], "that link is gone");
}

#[test]
fn call_of_an_earlier_process_is_lost_with_its_store() {
    let machine = Machine::new();
    let (lost, held, waits) = (CallId::new(), CallId::new(), CallId::new());
    machine.unit.adopt(lost, Some(Uuid::now_v7()));
    machine.unit.adopt(held, Some(Uuid::now_v7()));
    machine.unit.adopt(waits, None);
    let listed = [InFlight { call_id: held, state: HeldState::Running }];
    assert_eq!(machine.unit.lost(&listed, machine.store), [lost]);
}

#[test]
fn replaced_link_has_no_effect() {
    let mut machine = Machine::new();
    let mut old = machine.dial(&[]);
    let call = call(true);
    let mut end = machine.begin(&call);
    drop(machine.dial(&[(call.call.call_id, HeldState::Running)]));
    assert_eq!(old.cut.try_recv(), Ok(Cut::Fenced));
    assert!(machine.unit.lock_if_current(1).is_none());
    assert!(!machine.unit.ended(1, Presence::Offline("gone".to_owned())), "its end is ignored");
    assert_eq!(machine.unit.lock().presence, Presence::Linked);
    let hello = hello(&machine.unit, machine.store, &[]);
    assert!(machine.unit.admit(1, &hello, "ws", 16, Timestamp::now()).is_none(), "it is not admitted again");
    assert_eq!(end.try_recv().unwrap_err(), TryRecvError::Empty);
}

#[test]
fn result_of_an_unsent_call_is_ignored() {
    let mut machine = Machine::new();
    machine.unit.lock().presence = Presence::Expected;
    let call = OutgoingCall { queue: true, ..call(true) };
    let mut end = machine.begin(&call);
    let id = call.call.call_id;
    drop(machine.dial(&[]));
    // The call is queued in the database, and no frame of it was sent.
    assert!(!machine.result(id));
    assert_eq!(end.try_recv().unwrap_err(), TryRecvError::Empty);
}

#[test]
fn calls_per_machine_are_bounded() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let ends: Vec<_> = (0..MOST).map(|_| machine.begin(&call(true))).collect();
    let refused = machine.unit.begin(call(true), nobody(), MOST).unwrap_err();
    assert_eq!(refused, Undelivered::Full(MOST));
    assert!(refused.nothing_ran());
    drop(ends);
    let mut long = call(true);
    long.call.arguments = RawValue::from_string(format!("{:?}", "x".repeat(4 << 20))).unwrap();
    let machine = Machine::new();
    machine.unit.lock().presence = Presence::Expected;
    assert!(matches!(machine.unit.begin(long, nobody(), MOST), Err(Undelivered::TooLarge(_))));
}

#[test]
fn machine_that_does_not_read_is_cut() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let (epoch, beat) = (machine.epoch, plexus_proto::node::Heartbeat { n: 1 });
    for _ in 0..17 {
        machine.unit.send(epoch, Frame::Ping(beat));
    }
    assert_eq!(link.cut.try_recv(), Ok(Cut::TooSlow));
}

#[test]
fn offline_machine_refuses_calls_unless_they_may_queue() {
    let machine = Machine::new();
    let refused = machine.unit.begin(call(true), nobody(), MOST).unwrap_err();
    assert_eq!(refused, Undelivered::Offline("it was never linked".to_owned()));
    machine.unit.lock().presence = Presence::Expected;
    let mut end = machine.begin(&call(true));
    let mut queued = machine.begin(&OutgoingCall { queue: true, ..call(true) });
    assert!(machine.unit.declare_offline(0, "it did not come", Timestamp::now()));
    assert_eq!(end.try_recv().unwrap().unwrap_err(), Undelivered::Offline("it did not come".to_owned()));
    assert_eq!(queued.try_recv().unwrap_err(), TryRecvError::Empty, "the call waits");
}

#[test]
fn draining_machine_finishes_calls_and_gets_no_new_ones() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let running = call(true);
    let mut end = machine.begin(&running);
    let settings = machine.unit.lock().settings.clone();
    assert!(machine.unit.changed(NodeSettings { draining: true, ..settings.clone() }));
    assert_eq!(machine.unit.begin(call(true), nobody(), MOST).unwrap_err(), Undelivered::Draining);
    let waits = OutgoingCall { queue: true, ..call(false) };
    let _waits = machine.begin(&waits);
    assert_eq!(sent(&mut link), ["call"]);
    assert!(machine.result(running.call.call_id));
    assert_eq!(text(&mut end), "done");
    machine.unit.changed(settings);
    assert_eq!(sent(&mut link), ["call"], "only the waiting call is sent");
}

#[test]
fn removed_machine_ends_its_calls() {
    let mut machine = Machine::new();
    let mut link = machine.dial(&[]);
    let orphan = CallId::new();
    machine.unit.adopt(orphan, Some(machine.store));
    let mut end = machine.begin(&call(true));
    assert_eq!(machine.unit.remove(), [orphan]);
    assert_eq!(link.cut.try_recv(), Ok(Cut::Removed));
    assert_eq!(text(&mut end), "interrupted");
    assert_eq!(machine.unit.begin(call(true), nobody(), MOST).unwrap_err(), Undelivered::Unknown);
}

#[tokio::test]
async fn running_calls_continue_on_their_machine_when_the_hub_stops() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let (mut persistent, mut read) = (machine.begin(&call(true)), machine.begin(&call(false)));
    machine.unit.release_callers();
    assert_eq!(persistent.try_recv().unwrap().unwrap_err(), Undelivered::Stopping { continues: true });
    assert_eq!(read.try_recv().unwrap().unwrap_err(), Undelivered::Stopping { continues: false });
    machine.unit.drain_calls().await;
    assert!(matches!(machine.unit.begin(call(true), nobody(), MOST), Err(Undelivered::Stopping { .. })));
}

#[test]
fn events_of_a_call_are_bounded() {
    let mut machine = Machine::new();
    drop(machine.dial(&[]));
    let received = Arc::new(AtomicUsize::new(0));
    let sink: EventSink = {
        let received = received.clone();
        Arc::new(move |_| {
            received.fetch_add(1, Ordering::Relaxed);
        })
    };
    let call = call(true);
    let _end = machine.unit.begin(call.clone(), sink, MOST).unwrap();
    let event = CallEvent {
        call_id: call.call.call_id,
        seq: 1,
        kind: "terminal_output".to_owned(),
        payload: RawValue::from_string("{}".to_owned()).unwrap(),
    };
    for _ in 0..1000 {
        let sink = machine.unit.lock_if_current(machine.epoch).unwrap().event(&event);
        if let Some(sink) = sink {
            sink(event.clone());
        }
    }
    let received = received.load(Ordering::Relaxed);
    assert!((100..=400).contains(&received), "{received}");
}

#[test]
fn deadline_counts_from_the_first_send() {
    let mut machine = Machine::new();
    machine.unit.lock().presence = Presence::Expected;
    let at = Arc::new(Mutex::new(0));
    let counted = at.clone();
    let on_sent: Arc<dyn Fn() + Send + Sync> = Arc::new(move || *counted.lock().unwrap() += 1);
    let call = OutgoingCall { on_sent: Some(on_sent), ..call(true) };
    let _end = machine.begin(&call);
    assert_eq!(*at.lock().unwrap(), 0);
    let link = machine.dial(&[]);
    let Some(Frame::Call(frame)) = link.reconciled.frames.first() else { panic!("no call") };
    assert!((59_000..=60_000).contains(&frame.deadline_ms), "{}", frame.deadline_ms);
    machine.lose();
    drop(machine.dial(&[]));
    assert_eq!(*at.lock().unwrap(), 1, "the call is sent again, but begins once");
}

#[test]
fn refusal_message_states_whether_anything_ran() {
    let error = Undelivered::Offline("it was switched off".to_owned()).error("nas");
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.text().contains("nas") && error.text().contains("switched off"), "{}", error.text());
    assert!(!Undelivered::Abandoned { sent: true }.nothing_ran());
    assert!(!Undelivered::Stopping { continues: true }.nothing_ran());
    assert!(Undelivered::Abandoned { sent: false }.nothing_ran());
}
