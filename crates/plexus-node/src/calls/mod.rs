//! The calls that the hub has sent: each is run once, and its result is sent until the hub has it.
//!
//! A call that is to be kept is on disk before its tool is started, and so is its result before it is sent; both go with
//! the hub's confirmation. Others are in memory alone, and gone with the link that would carry their results. What runs
//! goes on without a link: the next one finds it here.

mod held;
mod orders;
mod run;
pub(crate) mod stop;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_kit::{Clock, Stage, Supervisor};
use plexus_machine::policy::Policies;
use plexus_proto::node::{Call, CallEvent, CallOutcome, CallResult, CancelReason, HeldState, InFlight};
use plexus_proto::{CallId, ErrorCode};
use plexus_store::{Store, StoreError};
use plexus_tools::Dispatcher;
use tokio::sync::watch;

use crate::NodeLimits;
use crate::outbox::Outbox;
use held::HeldCalls;
use run::Runner;
use stop::{Stop, Why, interrupted, refused};

/// Bytes of results that wait in memory to be sent; what is on disk too is read from there instead.
const UNSENT_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Calls {
    table: Mutex<Table>,
    held: HeldCalls,
    runner: Runner,
    supervisor: Supervisor,
    limits: NodeLimits,
    /// Calls that run now.
    running: watch::Sender<usize>,
    /// Events that no link was there for.
    unheard: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<CallId, Entry>,
    /// Of the link that is up.
    outbox: Option<Arc<Outbox>>,
    /// A hub was told which calls there are, and has not said yet what is to become of them.
    greeting: bool,
    /// Bytes of the outcomes in `calls`.
    unsent: usize,
    stopping: bool,
}

#[derive(Debug)]
struct Entry {
    /// Its row is on disk, or about to be.
    keep: bool,
    state: State,
    /// Nobody wants its result.
    unwanted: bool,
}

#[derive(Debug)]
enum State {
    Running(Stop),
    Finished {
        interrupted: bool,
        /// None: on disk only.
        outcome: Option<Unsent>,
    },
}

#[derive(Debug)]
struct Unsent {
    outcome: CallOutcome,
    bytes: usize,
    /// It is not on disk.
    only: bool,
}

/// What became of a call that the hub has sent.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is run, or was.
    Yes,
    /// Nothing was run: the hub is to be told this.
    Refused(CallResult),
}

impl Calls {
    /// Reads what an earlier process has left: what it was running is interrupted.
    pub(crate) async fn open(
        store: &Store,
        dispatcher: Dispatcher,
        policy: Policies,
        clock: Clock,
        supervisor: Supervisor,
        limits: NodeLimits,
    ) -> Result<Self, StoreError> {
        let held = HeldCalls::new(store.clone(), clock.clone());
        let finished = |interrupted| State::Finished { interrupted, outcome: None };
        let left = held.recover().await?.into_iter();
        let calls = left
            .map(|(id, interrupted)| {
                (id, Entry { keep: true, state: finished(interrupted), unwanted: false })
            })
            .collect();
        Ok(Self {
            table: Mutex::new(Table { calls, ..Table::default() }),
            held,
            runner: Runner::new(dispatcher, store.clone(), policy),
            supervisor,
            limits,
            running: watch::Sender::new(0),
            unheard: AtomicU64::new(0),
        })
    }

    /// Begins a call, unless it was begun before.
    pub(crate) fn take(self: &Arc<Self>, call: Call) -> Taken {
        let refusal = |outcome| Taken::Refused(CallResult { call_id: call.call_id, outcome });
        let stop = Stop::default();
        {
            let mut table = self.table();
            if let Some(entry) = table.calls.get(&call.call_id) {
                if let (State::Finished { .. }, Some(outbox)) = (&entry.state, &table.outbox) {
                    outbox.result(call.call_id);
                }
                return Taken::Yes;
            }
            if table.stopping {
                return refusal(refused(
                    ErrorCode::Unavailable,
                    "the node is stopping",
                    "Call again when it is back.",
                ));
            }
            if let Some(full) = self.full(&table) {
                return refusal(refused(
                    ErrorCode::Overloaded,
                    full,
                    "Wait for a call to end and call again.",
                ));
            }
            let state = State::Running(stop.clone());
            table.calls.insert(call.call_id, Entry { keep: call.keep, state, unwanted: false });
            self.running.send_modify(|running| *running += 1);
        }
        let calls = self.clone();
        self.supervisor.spawn(Stage::Work, "node call", async move { calls.see_through(call, stop).await });
        Taken::Yes
    }

    fn full(&self, table: &Table) -> Option<String> {
        let NodeLimits { running, held, .. } = self.limits;
        if *self.running.borrow() >= running {
            return Some(format!("the node already runs {running} calls, the most that it runs at once"));
        }
        if table.calls.len() >= held {
            return Some(format!(
                "the node holds {held} calls whose results were not taken, the most that it holds"
            ));
        }
        (table.unsent >= UNSENT_BYTES)
            .then(|| "the node has too many results that the hub does not take".to_owned())
    }

    /// Holds, runs, and says how it ended.
    async fn see_through(self: Arc<Self>, call: Call, stop: Stop) {
        let (call_id, keep) = (call.call_id, call.keep);
        if keep && let Err((outcome, on_disk)) = self.hold(&call).await {
            return self.ended(call_id, outcome, on_disk);
        }
        if keep && let Some(outbox) = self.outbox() {
            outbox.ack(call_id);
        }
        let calls = self.clone();
        let tell = move |event: CallEvent| calls.event(event);
        let outcome = match stop.before_it_began() {
            Some(outcome) => outcome,
            None => stop.explain(self.runner.run(call, &stop, Arc::new(tell)).await),
        };
        let outcome = run::within_a_frame(outcome);
        let mut kept = keep;
        if keep && let Err(error) = self.held.finish(call_id, &outcome).await {
            // Sent all the same: should the node end before it is confirmed, the call was interrupted.
            tracing::error!(%call_id, %error, "a result cannot be written down; it is sent from memory");
            kept = false;
        }
        self.ended(call_id, outcome, kept);
    }

    /// Err: it is not to be run, and this is its end; whether that is on disk.
    async fn hold(&self, call: &Call) -> Result<(), (CallOutcome, bool)> {
        let call_id = call.call_id;
        match self.held.hold(call).await {
            Ok(true) => Ok(()),
            // Confirmed just before, and sent again all the same.
            Ok(false) => {
                tracing::warn!(%call_id, "a call came again that was run before; it is not run");
                let end = self.held.result(call_id).await.ok().flatten();
                Err((end.unwrap_or_else(|| CallOutcome::Failed(interrupted())), true))
            }
            Err(error) => {
                tracing::error!(%call_id, %error, "a call cannot be written down, so it is not run");
                let message = "the node could not write the call down, and so did not begin it";
                let hint = "Look whether the disk of the node is full.";
                Err((refused(ErrorCode::Unavailable, message, hint), false))
            }
        }
    }

    fn ended(self: &Arc<Self>, call_id: CallId, outcome: CallOutcome, on_disk: bool) {
        self.put_down(call_id, outcome, on_disk);
        // Not before: who waits for the last call to end says goodbye then, and its result has to be on its way.
        self.running.send_modify(|running| *running = running.saturating_sub(1));
    }

    /// `on_disk`: its result is.
    fn put_down(self: &Arc<Self>, call_id: CallId, outcome: CallOutcome, on_disk: bool) {
        let mut table = self.table();
        let Table { calls, outbox, greeting, unsent, .. } = &mut *table;
        let Some(entry) = calls.get_mut(&call_id) else { return };
        if entry.unwanted || (outbox.is_none() && !*greeting && !on_disk && !entry.keep) {
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
        // What is on disk need not be in memory too, but is sent sooner from there.
        let in_memory = !on_disk || (outbox.is_some() && *unsent + bytes <= UNSENT_BYTES);
        let outcome = in_memory.then_some(Unsent { outcome, bytes, only: !on_disk });
        if in_memory {
            *unsent += bytes;
        }
        entry.state = State::Finished { interrupted, outcome };
        if let Some(outbox) = outbox {
            outbox.result(call_id);
        }
    }

    /// False: it was left out.
    fn event(&self, event: CallEvent) -> bool {
        match self.outbox() {
            Some(outbox) => outbox.event(event),
            None => {
                self.unheard.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// The hub wants a call to be stopped.
    pub(crate) fn cancel(&self, call_id: CallId, reason: CancelReason) {
        if let Some(Entry { state: State::Running(stop), .. }) = self.table().calls.get(&call_id) {
            stop.stop(Why::Hub(reason));
        }
    }

    /// The hub has stored the result.
    pub(crate) fn confirmed(self: &Arc<Self>, call_id: CallId) {
        let mut table = self.table();
        let Table { calls, unsent, .. } = &mut *table;
        let Some(Entry { state: State::Finished { outcome, .. }, .. }) = calls.get_mut(&call_id) else {
            // One that runs is not finished, whatever the hub says.
            return;
        };
        *unsent -= outcome.take().map_or(0, |unsent| unsent.bytes);
        let Some(entry) = calls.remove(&call_id) else { return };
        drop(table);
        if entry.keep {
            self.forget(call_id);
        }
    }

    /// Should this be lost, the next hub is told of the call and says that it can go.
    fn forget(self: &Arc<Self>, call_id: CallId) {
        let calls = self.clone();
        self.supervisor.spawn(Stage::Work, "forget call", async move {
            if let Err(error) = calls.held.forget(call_id).await {
                tracing::warn!(%call_id, %error, "a call that has ended cannot be forgotten yet");
            }
        });
    }

    /// The result of a call, for the link that is up. None: there is none any more.
    pub(crate) async fn result(&self, call_id: CallId) -> Option<CallOutcome> {
        let waiting = {
            let mut table = self.table();
            let Table { calls, unsent, .. } = &mut *table;
            let Entry { state: State::Finished { outcome, .. }, keep, .. } = calls.get_mut(&call_id)? else {
                return None;
            };
            // What is not on disk stays in memory until the hub has it.
            match outcome {
                Some(waiting) if waiting.only && *keep => Some(waiting.outcome.clone()),
                outcome => outcome.take().map(|waiting| {
                    *unsent -= waiting.bytes;
                    waiting.outcome
                }),
            }
        };
        if waiting.is_some() {
            return waiting;
        }
        self.held.result(call_id).await.unwrap_or_else(|error| {
            tracing::error!(%call_id, %error, "a result cannot be read; the next link tries again");
            None
        })
    }

    /// A result was handed to the link: one that is not kept is nobody's any more.
    pub(crate) fn sent(&self, call_id: CallId) {
        let mut table = self.table();
        if table.calls.get(&call_id).is_some_and(|entry| !entry.keep) {
            table.calls.remove(&call_id);
        }
    }

    /// Calls that are held now, for the hub to say what is to become of each. What ends before it has is kept.
    pub(crate) fn in_flight(&self) -> Vec<InFlight> {
        let mut table = self.table();
        table.greeting = true;
        let listed = table.calls.iter().map(|(call_id, entry)| InFlight {
            call_id: *call_id,
            state: match entry.state {
                State::Running(_) => HeldState::Running,
                State::Finished { interrupted: true, .. } => HeldState::Interrupted,
                State::Finished { interrupted: false, .. } => HeldState::Finished,
            },
        });
        listed.collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.table().stopping
    }

    /// No call is begun from now on.
    pub(crate) fn stop_taking(&self) {
        self.table().stopping = true;
        if let Some(outbox) = self.outbox() {
            outbox.changed();
        }
    }

    /// Returns when no call runs.
    pub(crate) async fn idle(&self) {
        // The sender is here: it does not go away.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Stops all that runs; each ends as interrupted.
    pub(crate) fn hand_back(&self) {
        for entry in self.table().calls.values() {
            if let State::Running(stop) = &entry.state {
                stop.stop(Why::Node);
            }
        }
    }

    pub(crate) fn outbox(&self) -> Option<Arc<Outbox>> {
        self.table().outbox.clone()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_interrupted(outcome: &CallOutcome) -> bool {
    matches!(outcome, CallOutcome::Failed(failure) if failure.code == ErrorCode::Interrupted)
}
