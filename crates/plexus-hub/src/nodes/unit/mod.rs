//! One machine: its settings, its link while it has one, and its calls.
//!
//! All state is behind one lock that is held only briefly. A link identifies itself by its epoch, so requests of a
//! replaced link have no effect.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plexus_proto::node::{
    Ack, CallEvent, CallOutcome, CallResult, Cancel, CancelReason, Dial, Frame, Hello, HostedServer, InFlight,
};
use plexus_proto::{CallId, NodeId, Timestamp};
use plexus_tools::nodes::NodeEntry;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use super::call::{EventSink, OutgoingCall, Undelivered};
use calls::{CallEnd, Calls, Reconciled, ResultAction, SettleAction};

/// The hub's settings of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeSettings {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) draining: bool,
}

/// The last report of a machine.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeReport {
    pub(super) store: Option<Uuid>,
    /// Dial counter of its newest link.
    pub(super) dial: Option<Dial>,
    pub(super) version: Option<String>,
    pub(super) os: Option<String>,
    pub(super) arch: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) sandbox: Option<String>,
    pub(super) tools: BTreeSet<String>,
    pub(super) servers: Vec<HostedServer>,
    pub(super) profiles: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) draining: bool,
}

impl NodeReport {
    pub(super) fn new(hello: &Hello) -> Self {
        Self {
            store: Some(hello.store_id),
            dial: hello.dial,
            version: Some(hello.version.clone()),
            os: Some(hello.os.clone()),
            arch: Some(hello.arch.clone()),
            hostname: hello.hostname.clone(),
            sandbox: hello.sandbox.clone(),
            tools: hello.tools.iter().map(|tool| tool.name.clone()).collect(),
            servers: hello.mcp_servers.clone(),
            profiles: hello.profiles.clone(),
            labels: hello.labels.clone(),
            draining: hello.draining,
        }
    }
}

/// Whether a machine is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Presence {
    Linked,
    /// Its link broke a moment ago, or the hub has just started: the machine is expected to connect.
    Expected,
    /// Offline, with the reason.
    Offline(String),
}

/// Whether calls to a linked machine succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// Not tested yet.
    Untested,
    Well,
    /// Calls fail, with the reason.
    Unwell(String),
}

/// Why the hub cuts a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// A newer link has replaced it.
    Fenced,
    /// The machine was removed.
    Removed,
    /// The machine does not read the frames sent to it.
    TooSlow,
}

/// An open link.
#[derive(Debug)]
struct ActiveLink {
    epoch: u64,
    /// Bounded. If it is full, the machine reads too slowly and the link is cut.
    frames: mpsc::Sender<Frame>,
    cut: oneshot::Sender<Cut>,
    transport: &'static str,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: NodeSettings,
    pub(super) report: NodeReport,
    pub(super) presence: Presence,
    pub(super) health: Health,
    pub(super) rtt: Option<Duration>,
    pub(super) seen_at: Option<Timestamp>,
    /// Since when it has been present or absent.
    since: Option<Timestamp>,
    /// Whether the last recorded event about it was `node_online`.
    pub(super) online_recorded: bool,
    removed: bool,
    stopping: bool,
    /// Epoch of its newest link.
    epoch: u64,
    link: Option<ActiveLink>,
    calls: Calls,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) id: NodeId,
    state: Mutex<State>,
    /// Notified when a call has ended.
    ended: Arc<Notify>,
}

/// A link that was admitted.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) frames: mpsc::Receiver<Frame>,
    pub(super) cut: oneshot::Receiver<Cut>,
    pub(super) reconciled: Reconciled,
    pub(super) settings: NodeSettings,
}

impl Unit {
    pub(super) fn new(
        id: NodeId,
        settings: NodeSettings,
        report: NodeReport,
        epoch: u64,
        seen_at: Option<Timestamp>,
    ) -> Self {
        let offline_reason = match seen_at {
            None => "it was never linked",
            Some(_) => "it is not linked",
        };
        let state = State {
            settings,
            report,
            presence: Presence::Offline(offline_reason.to_owned()),
            health: Health::Untested,
            rtt: None,
            seen_at,
            since: seen_at,
            online_recorded: false,
            removed: false,
            stopping: false,
            epoch,
            link: None,
            calls: Calls::default(),
        };
        Self { id, state: Mutex::new(state), ended: Arc::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call of an earlier hub process.
    pub(super) fn adopt(&self, call: CallId, sent_to: Option<Uuid>) {
        self.lock().calls.adopt(call, sent_to);
    }

    /// Adds a call, and sends it if the machine is linked.
    pub(super) fn begin(
        &self,
        call: OutgoingCall,
        events: EventSink,
        max_calls: usize,
    ) -> Result<oneshot::Receiver<CallEnd>, Undelivered> {
        let mut state = self.lock();
        let (call_id, keep, queue) = (call.call.call_id, call.call.keep, call.queue);
        if state.removed {
            return Err(Undelivered::Unknown);
        }
        if state.stopping {
            return Err(Undelivered::Stopping { continues: keep && queue });
        }
        if let (Presence::Offline(why), false) = (&state.presence, queue) {
            return Err(Undelivered::Offline(why.clone()));
        }
        if state.is_draining() && !queue {
            return Err(Undelivered::Draining);
        }
        // For a call that may be queued, the database must first record that it is no longer waiting.
        let must_record = keep && queue;
        let end = state.calls.begin(call, events, max_calls)?;
        if !state.is_draining() && !must_record {
            state.dispatch(call_id);
        }
        Ok(end)
    }

    /// The caller of a call has given up. Returns whether the call had been sent.
    pub(super) fn abandon(&self, call: CallId) -> bool {
        let mut state = self.lock();
        let (sent, cancel) = state.calls.abandon(call);
        if let Some(cancel) = cancel {
            state.send(cancel);
        }
        self.ended.notify_waiters();
        sent
    }

    /// The end of a call was committed.
    pub(super) fn settled(&self, call: CallId) {
        let mut state = self.lock();
        match state.calls.settled(call) {
            SettleAction::Confirm => state.send(Frame::Ack(Ack { call_id: call })),
            SettleAction::Cancel => {
                state.send(Frame::Cancel(Cancel { call_id: call, reason: CancelReason::Deadline }));
            }
            SettleAction::Nothing => {}
        }
        self.ended.notify_waiters();
    }

    /// Whether it belongs to an earlier hub process and has no waiting caller.
    pub(super) fn is_orphan(&self, call: CallId) -> bool {
        self.lock().calls.is_orphan(call)
    }

    pub(super) fn conclude_failed(&self, call: CallId) {
        self.lock().calls.conclude_failed(call);
    }

    /// Whether the machine has dialed again since it sent this, and the newer dial arrived first.
    pub(super) fn is_outdated(&self, hello: &Hello) -> bool {
        self.lock().is_outdated(hello)
    }

    /// Admits a link in place of an older one; `None` if there is a newer one, or the machine was removed.
    pub(super) fn admit(
        &self,
        epoch: u64,
        hello: &Hello,
        transport: &'static str,
        queue: usize,
        now: Timestamp,
    ) -> Option<Admitted> {
        let mut state = self.lock();
        if epoch <= state.epoch || state.removed || state.stopping || state.is_outdated(hello) {
            return None;
        }
        state.epoch = epoch;
        state.cut(Cut::Fenced);
        if matches!(state.presence, Presence::Offline(_)) || state.seen_at.is_none() {
            state.since = Some(now);
        }
        state.seen_at = Some(now);
        state.report = NodeReport::new(hello);
        state.health = Health::Untested;
        state.presence = Presence::Linked;
        state.rtt = None;
        let sending = !state.is_draining();
        let reconciled = state.calls.reconcile(&hello.calls, hello.store_id, sending);
        state.refuse_if_draining();
        let (frames, queued) = mpsc::channel(queue);
        let (cut, is_cut) = oneshot::channel();
        state.link = Some(ActiveLink { epoch, frames, cut, transport });
        Some(Admitted { frames: queued, cut: is_cut, reconciled, settings: state.settings.clone() })
    }

    /// The state, if this link is still the current one.
    pub(super) fn lock_if_current(&self, epoch: u64) -> Option<MutexGuard<'_, State>> {
        let state = self.lock();
        state.link.as_ref().is_some_and(|link| link.epoch == epoch).then_some(state)
    }

    /// A link has ended. Returns whether it was the current one.
    pub(super) fn ended(&self, epoch: u64, presence: Presence) -> bool {
        let mut state = self.lock();
        if state.epoch != epoch {
            return false;
        }
        state.link = None;
        state.presence = presence;
        true
    }

    /// A machine that was expected did not connect.
    pub(super) fn declare_offline(&self, epoch: u64, why: &str, now: Timestamp) -> bool {
        let mut state = self.lock();
        if state.epoch != epoch || state.presence == Presence::Linked {
            return false;
        }
        state.presence = Presence::Offline(why.to_owned());
        state.since = Some(now);
        state.calls.refuse_unsent(&Undelivered::Offline(why.to_owned()), false);
        true
    }

    /// The hub's settings of the machine were changed.
    pub(super) fn changed(&self, settings: NodeSettings) -> bool {
        let mut state = self.lock();
        if state.settings == settings {
            return false;
        }
        let resumed = state.is_draining() && !settings.draining;
        state.settings = settings;
        if resumed && !state.is_draining() {
            state.dispatch_unsent();
        }
        state.refuse_if_draining();
        true
    }

    /// Calls to send once the database has recorded the store they are sent to, with the link and store.
    pub(super) fn calls_to_record(&self) -> Option<(u64, Uuid, Vec<CallId>)> {
        let state = self.lock();
        if state.is_draining() {
            return None;
        }
        let link = state.link.as_ref()?;
        Some((link.epoch, state.report.store?, state.calls.unsent().1))
    }

    /// The database has recorded that this call is sent over this link. `read`: the stored call, if it has no
    /// waiting caller.
    pub(super) fn mark_recorded(&self, epoch: u64, call: CallId, read: Option<&OutgoingCall>) {
        let Some(mut state) = self.lock_if_current(epoch) else { return };
        let Some(store) = state.report.store else { return };
        let frame = match read {
            Some(read) => state.calls.send_read(read, store),
            None => state.calls.send(call, store),
        };
        if let Some(frame) = frame {
            state.send(frame);
        }
    }

    /// Refuses a call that was never sent.
    pub(super) fn refuse(&self, call: CallId, why: &Undelivered) {
        self.lock().calls.refuse(call, why);
        self.ended.notify_waiters();
    }

    /// The machine was removed: cuts its link and ends its calls. Returns the calls without a waiting caller.
    pub(super) fn remove(&self) -> Vec<CallId> {
        let mut state = self.lock();
        state.removed = true;
        state.cut(Cut::Removed);
        state.presence = Presence::Offline("it was removed".to_owned());
        state.calls.refuse_unsent(&Undelivered::Unknown, true);
        state.calls.interrupt_sent("its node was removed");
        state.calls.orphans()
    }

    /// Stops accepting calls because the hub is stopping. Returns when none is in flight any more.
    pub(super) async fn drain_calls(&self) {
        let ended = self.ended.clone();
        loop {
            let mut call_ended = std::pin::pin!(ended.notified());
            call_ended.as_mut().enable();
            {
                let mut state = self.lock();
                state.stopping = true;
                if !state.calls.any_in_flight() {
                    return;
                }
            }
            call_ended.await;
        }
    }

    /// Leaves the calls that are still running to the machine.
    pub(super) fn release_callers(&self) {
        let mut state = self.lock();
        state.stopping = true;
        state.calls.release_callers();
    }

    pub(super) fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    pub(super) fn entry(&self) -> NodeEntry {
        self.lock().entry(self.id)
    }

    /// Calls that were sent to another store of the machine, and whose results will never arrive.
    pub(super) fn lost(&self, listed: &[InFlight], store: Uuid) -> Vec<CallId> {
        self.lock().calls.lost(listed, store)
    }

    /// Sends a frame to the machine, if this link is still the current one.
    pub(super) fn send(&self, epoch: u64, frame: Frame) {
        if let Some(mut state) = self.lock_if_current(epoch) {
            state.send(frame);
        }
    }
}

impl State {
    /// Whether new calls are held back.
    pub(super) fn is_draining(&self) -> bool {
        self.settings.draining || self.report.draining
    }

    /// Only true while the machine is linked or expected: a store restored from a backup continues with an older
    /// counter, and must be admitted once no link with a higher counter exists.
    fn is_outdated(&self, hello: &Hello) -> bool {
        let is_same_store =
            self.report.store == Some(hello.store_id) && !matches!(self.presence, Presence::Offline(_));
        is_same_store && hello.dial.zip(self.report.dial).is_some_and(|(this, newest)| this <= newest)
    }

    pub(super) fn transport(&self) -> Option<&'static str> {
        self.link.as_ref().map(|link| link.transport)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn entry(&self, id: NodeId) -> NodeEntry {
        let unwell = matches!(self.health, Health::Unwell(_));
        let mut labels = self.report.labels.clone();
        labels.extend(self.settings.labels.clone());
        NodeEntry {
            id,
            name: self.settings.name.clone(),
            labels,
            online: !self.removed && !unwell && !matches!(self.presence, Presence::Offline(_)),
            since: self.since,
            store_id: self.report.store,
            draining: self.is_draining(),
            tools: self.report.tools.clone(),
        }
    }

    /// Passes a frame to the link. A link whose queue is full is cut: missing frames are reconciled when the
    /// machine reconnects.
    fn send(&mut self, frame: Frame) {
        if let Some(link) = &self.link
            && let Err(mpsc::error::TrySendError::Full(_)) = link.frames.try_send(frame)
        {
            self.cut(Cut::TooSlow);
        }
    }

    fn cut(&mut self, why: Cut) {
        if let Some(link) = self.link.take() {
            let _ = link.cut.send(why);
        }
    }

    /// Sends a call if there is a link.
    fn dispatch(&mut self, call: CallId) {
        let Some(store) = self.report.store.filter(|_| self.link.is_some()) else { return };
        if let Some(frame) = self.calls.send(call, store) {
            self.send(frame);
        }
    }

    /// Refuses calls that waited for an expected machine and would not be sent to it now. Calls that may be queued
    /// without limit remain.
    fn refuse_if_draining(&mut self) {
        if self.is_draining() {
            self.calls.refuse_unsent(&Undelivered::Draining, false);
        }
    }

    fn dispatch_unsent(&mut self) {
        for call in self.calls.unsent().0 {
            self.dispatch(call);
        }
    }

    pub(super) fn event(&mut self, event: &CallEvent) -> Option<EventSink> {
        self.calls.event(event)
    }

    pub(super) fn accepted(&mut self, call: CallId) {
        self.calls.accepted(call);
    }

    /// Handles the result of a call. Returns one that must be concluded.
    pub(super) fn result(&mut self, result: CallResult) -> Result<Option<CallOutcome>, UnwantedResult> {
        match self.calls.result(result.call_id, result.outcome) {
            ResultAction::Delivered => Ok(None),
            ResultAction::Conclude(outcome) => Ok(Some(outcome)),
            // A stopping hub has released its continuing calls: the next hub process receives their results.
            ResultAction::Unwanted if self.stopping => Err(UnwantedResult),
            ResultAction::Unwanted => {
                self.send(Frame::Ack(Ack { call_id: result.call_id }));
                Err(UnwantedResult)
            }
        }
    }

    /// The machine reports changed capabilities. It may accept calls again.
    pub(super) fn update_report(&mut self, hello: &Hello) {
        let (was_draining, store, dial) = (self.is_draining(), self.report.store, self.report.dial);
        self.report = NodeReport { store, dial, ..NodeReport::new(hello) };
        if was_draining && !self.is_draining() {
            self.dispatch_unsent();
        }
        self.refuse_if_draining();
    }
}

/// A result without a waiting caller, for an unknown call.
#[derive(Debug)]
pub(super) struct UnwantedResult;
