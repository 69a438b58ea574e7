//! The calls of one machine, from before they are sent until their end is committed.
//!
//! # The state of a call
//!
//! A call without `keep` has no row and is only ever `Waiting`: its result or its caller removes it. The state
//! of a call with `keep` is in three places: whether a task of this process awaits its end (`AwaitedCalls` in
//! `plexus_tools::dispatcher::node_call`), its row in `node_calls`, and its `Stage` here. "Sent" means that `sent_to`
//! is set, "either" is queued or sent, and "–" means none. These combinations occur:
//!
//! ```text
//! awaited  row     stage               the call                     what follows
//! yes      –       –                   has not begun                the row and the key are stored
//! yes      queued  Waiting, unsent     waits for its machine        the row is marked as sent, or deleted
//! yes      sent    Waiting, unsent     waits to be sent             it is sent, or refused
//! yes      sent    Waiting, sent       may run                      its result, or its caller gives up
//! yes      sent    Delivered           has ended                    its task deletes the row
//! yes      sent    Concluding, Orphan  its result came again, late  the row is deleted, by the task or here
//! yes      either  Abandoned           has no caller any more       its task deletes the row
//! yes      –       any of these        is over                      `settled` removes it here
//! no       queued  Orphan, unsent      is of an earlier process     the row is marked as sent, or expires
//! no       sent    Orphan              is of an earlier process     its result; or it is lost or expires
//! no       sent    Concluding          has ended                    the row is deleted, or it is an Orphan again
//! no       –       Orphan, Concluding  is over                      `settled` removes it here
//! no       either  –                   is left by a stopping hub    the next process adopts it as an Orphan
//! ```
//!
//! The row decides. It is marked as sent before a queued call is sent, so a call whose row can be deleted as queued has
//! not run. Whoever deletes the row records the end, in the same transaction. Two may try, such as a task and the
//! conclusion of a late result; the second finds no row and records nothing.

use std::collections::HashMap;
use std::time::Duration;

use plexus_proto::CallId;
use plexus_proto::node::{
    CallEvent, CallOrder, CallOutcome, Cancel, CancelReason, Frame, HeldState, InFlight, MAX_FRAME, Order,
};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::nodes::call::{EventSink, OutgoingCall, Undelivered, interrupted};

/// Maximum size of the arguments of one call: what fits into a frame with the rest of the call.
const CALL_BYTES: usize = MAX_FRAME - (64 << 10);
/// Maximum total size of the arguments of one machine's calls that may have to be sent again.
const ARGUMENT_BYTES: usize = 64 << 20;
/// Maximum total size of the events of one call. A machine limits itself to a quarter of it.
const EVENT_BYTES: usize = 4 << 20;
/// Rate limit for the events of one call: burst, and events per second.
const EVENT_BURST: u64 = 200;
const EVENT_RATE: u64 = 20;
/// A delivered result that has not been settled within this time is accepted again when it arrives again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Replaces a deadline that the clock cannot represent.
const FALLBACK_DEADLINE: Duration = Duration::from_secs(24 * 3600);

pub(super) type CallEnd = Result<CallOutcome, Undelivered>;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Calls {
    entries: HashMap<CallId, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// The call to send (again); `None` once the machine has accepted a persistent call, and for a call of an
    /// earlier hub process, which is in the database.
    call: Option<Box<OutgoingCall>>,
    keep: bool,
    queue: bool,
    /// Set when it is first sent.
    deadline: Option<Instant>,
    /// The machine's store that it was sent to.
    sent_to: Option<Uuid>,
    /// The machine has acknowledged it.
    accepted: bool,
    stage: Stage,
}

enum Stage {
    /// A caller waits for it.
    Waiting { done: oneshot::Sender<CallEnd>, events: EventSink, received: ReceivedEvents },
    /// Its result was delivered and must be settled.
    Delivered { at: Instant },
    /// The caller has given up and settles it; the result may have arrived.
    Abandoned { ended: bool },
    /// It has no waiting caller: it belongs to an earlier hub process.
    Orphan,
    /// Its result is being recorded.
    Concluding,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting { .. } => "Waiting",
            Self::Delivered { .. } => "Delivered",
            Self::Abandoned { .. } => "Abandoned",
            Self::Orphan => "Orphan",
            Self::Concluding => "Concluding",
        })
    }
}

/// The amount of events received for a call.
struct ReceivedEvents {
    since: Instant,
    events: u64,
    bytes: usize,
}

/// Consequences of a machine's `hello`.
#[derive(Debug, Default)]
pub(in crate::nodes) struct Reconciled {
    pub(in crate::nodes) orders: Vec<CallOrder>,
    /// Frames to send after the welcome.
    pub(in crate::nodes) frames: Vec<Frame>,
    /// Calls to send once the database has recorded the store they are sent to.
    pub(in crate::nodes) to_record: Vec<CallId>,
}

/// Consequence of a result.
#[derive(Debug)]
pub(super) enum ResultAction {
    /// It was delivered to the caller, or is already known.
    Delivered,
    /// The call has no waiting caller and must be concluded.
    Conclude(CallOutcome),
    /// The call is unknown or no longer wanted: the result must be acknowledged so that the machine forgets it.
    Unwanted,
}

/// Consequence of the end of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SettleAction {
    /// The machine must be notified.
    Confirm,
    /// The call may still run, and its result is not wanted.
    Cancel,
    Nothing,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a call has a waiting caller or is being settled.
    pub(super) fn any_in_flight(&self) -> bool {
        let in_flight = |entry: &Entry| match entry.stage {
            Stage::Waiting { .. } | Stage::Delivered { .. } | Stage::Concluding => true,
            Stage::Abandoned { .. } | Stage::Orphan => false,
        };
        self.entries.values().any(in_flight)
    }

    /// Adds a call of an earlier hub process; `sent_to` is the machine's last known store.
    pub(super) fn adopt(&mut self, call: CallId, sent_to: Option<Uuid>) {
        let entry = Entry {
            call: None,
            keep: true,
            queue: true,
            deadline: None,
            sent_to,
            accepted: false,
            stage: Stage::Orphan,
        };
        self.entries.insert(call, entry);
    }

    /// Adds a new call, if there is room.
    pub(super) fn begin(
        &mut self,
        call: OutgoingCall,
        events: EventSink,
        most: usize,
    ) -> Result<oneshot::Receiver<CallEnd>, Undelivered> {
        if call.bytes() > CALL_BYTES {
            return Err(Undelivered::TooLarge(call.bytes()));
        }
        let bytes = self.bytes + call.bytes();
        if self.entries.len() >= most || bytes > ARGUMENT_BYTES {
            return Err(Undelivered::Full(self.entries.len()));
        }
        self.bytes = bytes;
        let (done, end) = oneshot::channel();
        let received = ReceivedEvents { since: Instant::now(), events: 0, bytes: 0 };
        let id = call.call.call_id;
        let entry = Entry {
            keep: call.call.keep,
            queue: call.queue,
            deadline: None,
            sent_to: None,
            accepted: false,
            stage: Stage::Waiting { done, events, received },
            call: Some(Box::new(call)),
        };
        self.entries.insert(id, entry);
        Ok(end)
    }

    /// The frame of a call that is now sent to this store of the machine.
    pub(super) fn send(&mut self, call: CallId, store: Uuid) -> Option<Frame> {
        let entry = self.entries.get_mut(&call)?;
        let call = entry.call.as_ref()?;
        let deadline = *entry.deadline.get_or_insert_with(|| deadline(call));
        if entry.sent_to.is_none()
            && let Some(on_sent) = &call.on_sent
        {
            on_sent();
        }
        entry.sent_to = Some(store);
        Some(call.frame(deadline))
    }

    /// The same for a call read from the database, without a waiting caller.
    pub(super) fn send_read(&mut self, call: &OutgoingCall, store: Uuid) -> Option<Frame> {
        let entry = self.entries.get_mut(&call.call.call_id)?;
        if !matches!(entry.stage, Stage::Orphan) {
            return None;
        }
        entry.sent_to = Some(store);
        Some(call.frame(deadline(call)))
    }

    pub(super) fn is_orphan(&self, call: CallId) -> bool {
        self.entries.get(&call).is_some_and(|entry| matches!(entry.stage, Stage::Orphan))
    }

    /// Calls that were never sent: those to send now, and those to send once the database has recorded the store.
    pub(super) fn unsent(&self) -> (Vec<CallId>, Vec<CallId>) {
        let mut unsent = (Vec::new(), Vec::new());
        for (call, entry) in self.entries.iter().filter(|(_, entry)| entry.sent_to.is_none()) {
            match entry.stage {
                Stage::Waiting { .. } if !entry.waits_in_the_database() => unsent.0.push(*call),
                Stage::Waiting { .. } | Stage::Orphan => unsent.1.push(*call),
                Stage::Delivered { .. } | Stage::Abandoned { .. } | Stage::Concluding => {}
            }
        }
        unsent
    }

    /// The machine has acknowledged the call: it need not be sent again.
    pub(super) fn accepted(&mut self, call: CallId) {
        if let Some(entry) = self.entries.get_mut(&call) {
            entry.accepted = true;
            if entry.keep {
                self.bytes -= entry.call.take().map_or(0, |call| call.bytes());
            }
        }
    }

    /// The receiver of a call's event; `None` without a waiting caller or over the rate limit.
    pub(super) fn event(&mut self, event: &CallEvent) -> Option<EventSink> {
        let entry = self.entries.get_mut(&event.call_id)?;
        let Stage::Waiting { events, received, .. } = &mut entry.stage else { return None };
        received.events += 1;
        received.bytes += event.kind.len() + event.payload.get().len();
        let most = EVENT_BURST + EVENT_RATE * received.since.elapsed().as_secs();
        (received.events <= most && received.bytes <= EVENT_BYTES).then(|| events.clone())
    }

    /// Handles the result of a call.
    pub(super) fn result(&mut self, call: CallId, outcome: CallOutcome) -> ResultAction {
        let Some(entry) = self.entries.get_mut(&call).filter(|entry| entry.sent_to.is_some()) else {
            return ResultAction::Unwanted;
        };
        if !entry.keep {
            if let Some(Entry { stage: Stage::Waiting { done, .. }, .. }) = self.remove(call) {
                let _ = done.send(Ok(outcome));
            }
            return ResultAction::Delivered;
        }
        match &mut entry.stage {
            Stage::Waiting { .. } => {
                let stage = std::mem::replace(&mut entry.stage, Stage::Delivered { at: Instant::now() });
                if let Stage::Waiting { done, .. } = stage {
                    // A caller that has just left abandons the call and settles it all the same.
                    let _ = done.send(Ok(outcome));
                }
                self.accepted(call);
                ResultAction::Delivered
            }
            Stage::Delivered { at } if at.elapsed() < SETTLE_TIMEOUT => ResultAction::Delivered,
            Stage::Delivered { .. } | Stage::Orphan => {
                entry.stage = Stage::Concluding;
                ResultAction::Conclude(outcome)
            }
            Stage::Abandoned { ended } => {
                *ended = true;
                ResultAction::Delivered
            }
            Stage::Concluding => ResultAction::Delivered,
        }
    }

    /// The caller has given up. Returns whether the call had been sent, and the frame for the machine.
    pub(super) fn abandon(&mut self, call: CallId) -> (bool, Option<Frame>) {
        let Some(entry) = self.entries.get_mut(&call) else { return (true, None) };
        let Stage::Waiting { .. } = entry.stage else { return (true, None) };
        let sent = entry.sent_to.is_some();
        let cancel = sent.then(|| entry.cancel(call));
        if entry.keep {
            entry.stage = Stage::Abandoned { ended: false };
            self.accepted(call);
        } else {
            self.remove(call);
        }
        (sent, cancel)
    }

    /// The end of a call was committed.
    pub(super) fn settled(&mut self, call: CallId) -> SettleAction {
        let Some(entry) = self.remove(call) else { return SettleAction::Nothing };
        match entry.stage {
            Stage::Delivered { .. } | Stage::Concluding | Stage::Abandoned { ended: true } => {
                SettleAction::Confirm
            }
            // The machine was told to stop it; its result is acknowledged when it arrives.
            Stage::Abandoned { ended: false } => SettleAction::Nothing,
            Stage::Waiting { .. } | Stage::Orphan if entry.sent_to.is_some() => SettleAction::Cancel,
            Stage::Waiting { .. } | Stage::Orphan => SettleAction::Nothing,
        }
    }

    /// Concluding a call failed: it is retried with its next result.
    pub(super) fn conclude_failed(&mut self, call: CallId) {
        if let Some(entry) = self.entries.get_mut(&call)
            && matches!(entry.stage, Stage::Concluding)
        {
            entry.stage = Stage::Orphan;
        }
    }

    /// Calls without a waiting caller that were sent to a store other than this one: their results will never arrive.
    pub(super) fn lost(&self, listed: &[InFlight], store: Uuid) -> Vec<CallId> {
        let is_listed = |call: &CallId| listed.iter().any(|held| held.call_id == *call);
        let lost = |entry: &Entry| {
            matches!(entry.stage, Stage::Orphan) && entry.sent_to.is_some_and(|sent_to| sent_to != store)
        };
        let entries = self.entries.iter().filter(|(call, entry)| lost(entry) && !is_listed(call));
        entries.map(|(call, _)| *call).collect()
    }

    /// All calls without a waiting caller.
    pub(super) fn orphans(&self) -> Vec<CallId> {
        let entries = self.entries.iter().filter(|(_, entry)| matches!(entry.stage, Stage::Orphan));
        entries.map(|(call, _)| *call).collect()
    }

    /// A machine with this store has linked and lists the calls that it holds. `sending`: new calls may be sent.
    pub(super) fn reconcile(&mut self, listed: &[InFlight], store: Uuid, sending: bool) -> Reconciled {
        let mut reconciled = Reconciled::default();
        let held: HashMap<CallId, HeldState> = listed.iter().map(|held| (held.call_id, held.state)).collect();
        for (call_id, state) in &held {
            let order = match self.entries.get_mut(call_id) {
                Some(entry) => {
                    entry.sent_to = Some(store);
                    if matches!(entry.stage, Stage::Abandoned { .. }) && *state == HeldState::Running {
                        reconciled.frames.push(entry.cancel(*call_id));
                    }
                    self.accepted(*call_id);
                    Order::Keep
                }
                None if *state == HeldState::Running => Order::Cancel,
                None => Order::Forget,
            };
            reconciled.orders.push(CallOrder { call_id: *call_id, order });
        }
        let unlisted: Vec<CallId> =
            self.entries.keys().filter(|call| !held.contains_key(call)).copied().collect();
        for call_id in unlisted {
            self.missing(call_id, store, sending, &mut reconciled);
        }
        reconciled
    }

    /// Handles a call that the machine does not hold.
    fn missing(&mut self, call_id: CallId, store: Uuid, sending: bool, reconciled: &mut Reconciled) {
        let Some(entry) = self.entries.get_mut(&call_id) else { return };
        let fresh = entry.sent_to.is_none();
        if fresh && !sending {
            return;
        }
        match entry.stage {
            Stage::Waiting { .. } => {
                let store_differs = entry.sent_to.is_some_and(|sent_to| sent_to != store);
                if entry.keep && (store_differs || entry.accepted) {
                    let why = match store_differs {
                        true => "its node was set up again",
                        false => "its node no longer has it",
                    };
                    self.result(call_id, interrupted(why));
                } else if entry.waits_in_the_database() {
                    reconciled.to_record.push(call_id);
                } else if let Some(frame) = self.send(call_id, store) {
                    reconciled.frames.push(frame);
                }
            }
            Stage::Orphan => reconciled.to_record.push(call_id),
            Stage::Delivered { .. } | Stage::Abandoned { .. } | Stage::Concluding => {}
        }
    }

    /// Refuses all calls that were never sent, except those that are queued until the machine reconnects.
    pub(super) fn refuse_unsent(&mut self, why: &Undelivered, queued_too: bool) {
        let is_unsent = |entry: &Entry| {
            let waiting = matches!(entry.stage, Stage::Waiting { .. });
            waiting && entry.sent_to.is_none() && (queued_too || !entry.queue)
        };
        let unsent: Vec<CallId> =
            self.entries.iter().filter(|(_, entry)| is_unsent(entry)).map(|(call, _)| *call).collect();
        for call in unsent {
            self.refuse(call, why);
        }
    }

    /// Refuses a call that was never sent; one that was sent or has no waiting caller is not changed.
    pub(super) fn refuse(&mut self, call: CallId, why: &Undelivered) {
        let is_unsent =
            |entry: &Entry| matches!(entry.stage, Stage::Waiting { .. }) && entry.sent_to.is_none();
        if self.entries.get(&call).is_some_and(is_unsent)
            && let Some(Entry { stage: Stage::Waiting { done, .. }, .. }) = self.remove(call)
        {
            let _ = done.send(Err(why.clone()));
        }
    }

    /// Ends all sent calls as interrupted, because their machine is permanently gone.
    pub(super) fn interrupt_sent(&mut self, why: &str) {
        let calls: Vec<CallId> = self.entries.keys().copied().collect();
        for call in calls {
            let waits = |entry: &Entry| matches!(entry.stage, Stage::Waiting { .. });
            if self.entries.get(&call).is_some_and(waits) {
                self.result(call, interrupted(why));
            }
        }
    }

    /// Leaves all calls to their machine because the hub is stopping.
    pub(super) fn release_callers(&mut self) {
        for (_, entry) in self.entries.drain() {
            if let Stage::Waiting { done, .. } = entry.stage {
                let continues = entry.keep && (entry.queue || entry.sent_to.is_some());
                let _ = done.send(Err(Undelivered::Stopping { continues }));
            }
        }
        self.bytes = 0;
    }

    fn remove(&mut self, call: CallId) -> Option<Entry> {
        let entry = self.entries.remove(&call)?;
        self.bytes -= entry.call.as_ref().map_or(0, |call| call.bytes());
        Some(entry)
    }
}

/// The deadline of a call that is sent now.
fn deadline(call: &OutgoingCall) -> Instant {
    let now = Instant::now();
    now.checked_add(Duration::from_millis(call.call.deadline_ms)).unwrap_or(now + FALLBACK_DEADLINE)
}

impl Entry {
    /// Whether its row is marked as queued and must be updated before it is sent.
    fn waits_in_the_database(&self) -> bool {
        self.keep && self.queue
    }

    fn cancel(&self, call_id: CallId) -> Frame {
        let passed = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let reason = if passed { CancelReason::Deadline } else { CancelReason::Caller };
        Frame::Cancel(Cancel { call_id, reason })
    }
}
