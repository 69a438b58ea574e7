//! The calls that the hub has sent: each runs once, and its result is sent until the hub confirms it.
//!
//! A call marked `keep` is on disk before its tool starts, and its result is on disk before it is sent; both are
//! deleted when the hub confirms the result. Other calls are in memory only, and are lost with the link that would
//! carry their results. A running call continues without a link and is reported on the next one.

mod held;
mod reconcile;
mod run;
pub(crate) mod stop;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_kit::{Clock, Stage, Supervisor};
use plexus_machine::policy::Policies;
use plexus_proto::node::{Call, CallEvent, CallOutcome, CallResult, CancelReason, HeldState, InFlight};
use plexus_proto::{CallId, ErrorCode};
use plexus_store::{Store, StoreError};
use plexus_tools::Dispatcher;
use tokio::sync::watch;

use crate::NodeLimits;
use crate::frame_queue::FrameQueue;
use held::HeldCalls;
use run::CallRunner;
use stop::{StopReason, StopSignal, interrupted, refused};

/// Limit in bytes of unsent results in memory. Results that are also on disk are read from there instead.
const UNSENT_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Calls {
    table: Mutex<CallTable>,
    held: HeldCalls,
    runner: CallRunner,
    supervisor: Supervisor,
    limits: NodeLimits,
    /// The number of running calls.
    running: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct CallTable {
    calls: HashMap<CallId, CallEntry>,
    /// Frames that wait for the current link.
    frames: Option<Arc<FrameQueue>>,
    /// `hello` has listed the calls, and the hub has not answered yet what to do with each.
    reconciling: bool,
    /// Bytes of the outcomes in `calls`.
    unsent: usize,
    stopping: bool,
}

#[derive(Debug)]
struct CallEntry {
    /// The call is stored on disk, or about to be.
    keep: bool,
    state: CallState,
    /// The hub does not want the result.
    discard_result: bool,
}

#[derive(Debug)]
enum CallState {
    Running(StopSignal),
    Finished {
        interrupted: bool,
        /// None if it is on disk only.
        outcome: Option<UnsentResult>,
    },
}

#[derive(Debug)]
struct UnsentResult {
    outcome: CallOutcome,
    bytes: usize,
    /// The result is not on disk.
    memory_only: bool,
}

/// Whether a call sent by the hub was accepted.
#[derive(Debug)]
pub(crate) enum Acceptance {
    /// It runs or has run.
    Accepted,
    /// Nothing was run; the result is for the hub.
    Refused(CallResult),
}

impl Calls {
    /// Reads the calls left by an earlier process; those that were running become interrupted.
    pub(crate) async fn open(
        store: &Store,
        dispatcher: Dispatcher,
        policy: Policies,
        clock: Clock,
        supervisor: Supervisor,
        limits: NodeLimits,
    ) -> Result<Self, StoreError> {
        let held = HeldCalls::new(store.clone(), clock.clone());
        let finished = |interrupted| CallState::Finished { interrupted, outcome: None };
        let recovered = held.recover().await?.into_iter();
        let calls = recovered
            .map(|(id, interrupted)| {
                (id, CallEntry { keep: true, state: finished(interrupted), discard_result: false })
            })
            .collect();
        Ok(Self {
            table: Mutex::new(CallTable { calls, ..CallTable::default() }),
            held,
            runner: CallRunner::new(dispatcher, store.clone(), policy),
            supervisor,
            limits,
            running: watch::Sender::new(0),
        })
    }

    /// Starts a call, unless it was started before.
    pub(crate) fn accept(self: &Arc<Self>, call: Call) -> Acceptance {
        let refusal = |outcome| Acceptance::Refused(CallResult { call_id: call.call_id, outcome });
        let stop = StopSignal::default();
        {
            let mut table = self.table();
            if let Some(entry) = table.calls.get(&call.call_id) {
                if let (CallState::Finished { .. }, Some(frames)) = (&entry.state, &table.frames) {
                    frames.result(call.call_id);
                }
                return Acceptance::Accepted;
            }
            if table.stopping {
                return refusal(refused(
                    ErrorCode::Unavailable,
                    "the node is stopping",
                    "Call again when it is back.",
                ));
            }
            if let Some(limit) = self.limit_reached(&table) {
                return refusal(refused(
                    ErrorCode::Overloaded,
                    limit,
                    "Wait for a call to end and call again.",
                ));
            }
            let state = CallState::Running(stop.clone());
            table.calls.insert(call.call_id, CallEntry { keep: call.keep, state, discard_result: false });
            self.running.send_modify(|running| *running += 1);
        }
        let calls = self.clone();
        self.supervisor.spawn(Stage::Work, "node call", async move { calls.run_to_end(call, stop).await });
        Acceptance::Accepted
    }

    fn limit_reached(&self, table: &CallTable) -> Option<String> {
        let NodeLimits { running, unconfirmed, .. } = self.limits;
        if *self.running.borrow() >= running {
            return Some(format!("the node already runs {running} calls, which is the limit"));
        }
        if table.calls.len() >= unconfirmed {
            return Some(format!(
                "the node holds {unconfirmed} calls whose results the hub has not confirmed, which is the limit"
            ));
        }
        (table.unsent >= UNSENT_BYTES).then(|| "the node has too many unsent results in memory".to_owned())
    }

    /// Stores the call, runs it and reports its end.
    async fn run_to_end(self: Arc<Self>, call: Call, stop: StopSignal) {
        let (call_id, keep) = (call.call_id, call.keep);
        if keep && let Err((outcome, on_disk)) = self.store_call(&call).await {
            return self.finish_call(call_id, outcome, on_disk);
        }
        if keep && let Some(frames) = self.frames() {
            frames.ack(call_id);
        }
        let calls = self.clone();
        let report = move |event: CallEvent| calls.event(event);
        let outcome = match stop.outcome_if_not_started() {
            Some(outcome) => outcome,
            None => stop.explain(self.runner.run(call, &stop, Arc::new(report)).await),
        };
        let outcome = run::limit_to_frame(outcome);
        let mut is_stored = keep;
        if keep && let Err(error) = self.held.finish(call_id, &outcome).await {
            // Send it anyway. If the node ends before it is confirmed, the call becomes interrupted.
            tracing::error!(%call_id, %error, "cannot store the result of a call; it is sent from memory");
            is_stored = false;
        }
        self.finish_call(call_id, outcome, is_stored);
    }

    /// Stores the call. An error is the outcome of a call that must not run, and whether that outcome is on disk.
    async fn store_call(&self, call: &Call) -> Result<(), (CallOutcome, bool)> {
        let call_id = call.call_id;
        match self.held.hold(call).await {
            Ok(true) => Ok(()),
            // It was confirmed just before, and the hub has sent it again anyway.
            Ok(false) => {
                tracing::warn!(%call_id, "the hub sent a call again that has already run; it is not run again");
                let end = self.held.result(call_id).await.ok().flatten();
                Err((end.unwrap_or_else(|| CallOutcome::Failed(interrupted())), true))
            }
            Err(error) => {
                tracing::error!(%call_id, %error, "cannot store a call, so it is not run");
                let message = "the node could not store the call on its disk, and did not start it";
                let hint = "Check whether the disk of the node is full.";
                Err((refused(ErrorCode::Unavailable, message, hint), false))
            }
        }
    }

    fn finish_call(self: &Arc<Self>, call_id: CallId, outcome: CallOutcome, on_disk: bool) {
        self.store_outcome(call_id, outcome, on_disk);
        // Only now: a stopping node sends `bye` when the last call has ended, and the result must be queued before it.
        self.running.send_modify(|running| *running = running.saturating_sub(1));
    }

    /// Marks the call as finished and queues its result. `on_disk`: the result is stored.
    fn store_outcome(self: &Arc<Self>, call_id: CallId, outcome: CallOutcome, on_disk: bool) {
        let mut table = self.table();
        let CallTable { calls, frames, reconciling, unsent, .. } = &mut *table;
        let Some(entry) = calls.get_mut(&call_id) else { return };
        if entry.discard_result || (frames.is_none() && !*reconciling && !on_disk && !entry.keep) {
            let keep = entry.keep;
            calls.remove(&call_id);
            drop(table);
            if keep {
                self.forget(call_id);
            }
            return;
        }
        let interrupted = is_interrupted(&outcome);
        let bytes = run::weight(&outcome);
        // A stored result is also kept in memory if there is room, because it is sent sooner from there.
        let in_memory = !on_disk || (frames.is_some() && *unsent + bytes <= UNSENT_BYTES);
        let outcome = in_memory.then_some(UnsentResult { outcome, bytes, memory_only: !on_disk });
        if in_memory {
            *unsent += bytes;
        }
        entry.state = CallState::Finished { interrupted, outcome };
        if let Some(frames) = frames {
            frames.result(call_id);
        }
    }

    /// Queues an event; returns false if it was dropped.
    fn event(&self, event: CallEvent) -> bool {
        match self.frames() {
            Some(frames) => frames.event(event),
            None => false,
        }
    }

    /// Stops a call on request of the hub.
    pub(crate) fn cancel(&self, call_id: CallId, reason: CancelReason) {
        if let Some(CallEntry { state: CallState::Running(stop), .. }) = self.table().calls.get(&call_id) {
            stop.stop(StopReason::Hub(reason));
        }
    }

    /// Deletes a call whose result the hub has stored.
    pub(crate) fn confirmed(self: &Arc<Self>, call_id: CallId) {
        let mut table = self.table();
        let CallTable { calls, unsent, .. } = &mut *table;
        let Some(CallEntry { state: CallState::Finished { outcome, .. }, .. }) = calls.get_mut(&call_id)
        else {
            // A running call has no result that the hub could have stored.
            return;
        };
        *unsent -= outcome.take().map_or(0, |unsent| unsent.bytes);
        let Some(entry) = calls.remove(&call_id) else { return };
        drop(table);
        if entry.keep {
            self.forget(call_id);
        }
    }

    /// If this fails, the next `hello` lists the call, and the hub answers that it can be deleted.
    fn forget(self: &Arc<Self>, call_id: CallId) {
        let calls = self.clone();
        self.supervisor.spawn(Stage::Work, "forget call", async move {
            if let Err(error) = calls.held.forget(call_id).await {
                tracing::warn!(%call_id, %error, "cannot delete an ended call yet");
            }
        });
    }

    /// The result of a call, to be sent; none if the call is no longer held.
    pub(crate) async fn result(&self, call_id: CallId) -> Option<CallOutcome> {
        let in_memory = {
            let mut table = self.table();
            let CallTable { calls, unsent, .. } = &mut *table;
            let CallEntry { state: CallState::Finished { outcome, .. }, keep, .. } =
                calls.get_mut(&call_id)?
            else {
                return None;
            };
            // A result that is not on disk stays in memory until the hub confirms it.
            match outcome {
                Some(unsent_result) if unsent_result.memory_only && *keep => {
                    Some(unsent_result.outcome.clone())
                }
                outcome => outcome.take().map(|unsent_result| {
                    *unsent -= unsent_result.bytes;
                    unsent_result.outcome
                }),
            }
        };
        if in_memory.is_some() {
            return in_memory;
        }
        self.held.result(call_id).await.unwrap_or_else(|error| {
            tracing::error!(%call_id, %error, "cannot read the stored result of a call; it is read again on the next link");
            None
        })
    }

    /// Called when a result was sent: a call that is not kept is then deleted.
    pub(crate) fn sent(&self, call_id: CallId) {
        let mut table = self.table();
        if table.calls.get(&call_id).is_some_and(|entry| !entry.keep) {
            table.calls.remove(&call_id);
        }
    }

    /// The calls that the node holds, for `hello`. Those that end before the hub answers are kept.
    pub(crate) fn in_flight(&self) -> Vec<InFlight> {
        let mut table = self.table();
        table.reconciling = true;
        let listed = table.calls.iter().map(|(call_id, entry)| InFlight {
            call_id: *call_id,
            state: match entry.state {
                CallState::Running(_) => HeldState::Running,
                CallState::Finished { interrupted: true, .. } => HeldState::Interrupted,
                CallState::Finished { interrupted: false, .. } => HeldState::Finished,
            },
        });
        listed.collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.table().stopping
    }

    /// From now on, no call is started.
    pub(crate) fn stop_accepting(&self) {
        self.table().stopping = true;
        if let Some(frames) = self.frames() {
            frames.changed();
        }
    }

    /// Returns when no call is running.
    pub(crate) async fn idle(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Stops all running calls; each ends as interrupted.
    pub(crate) fn interrupt_all(&self) {
        for entry in self.table().calls.values() {
            if let CallState::Running(stop) = &entry.state {
                stop.stop(StopReason::NodeStops);
            }
        }
    }

    pub(crate) fn frames(&self) -> Option<Arc<FrameQueue>> {
        self.table().frames.clone()
    }

    fn table(&self) -> MutexGuard<'_, CallTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_interrupted(outcome: &CallOutcome) -> bool {
    matches!(outcome, CallOutcome::Failed(failure) if failure.code == ErrorCode::Interrupted)
}
