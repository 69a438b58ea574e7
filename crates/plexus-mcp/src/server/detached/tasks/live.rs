//! Running tasks.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::{Clock, Stage};
use plexus_proto::Timestamp;
use plexus_store::{Store, StoreError, TaskEnd, TaskRecord, TaskStatus};
use plexus_tools::AskError;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{end, task_members};
use crate::server::State;
use crate::server::detached::answers::{KeyReuse, OpenQuestions};
use crate::server::rpc::RpcError;
use crate::server::running_call::{CallEvent, CallStep, QuestionRound, RunningCall};

/// Time limit for the answer to a task's question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Pause between attempts to store the end of a task.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The running tasks of this hub, and the store of all tasks.
pub(in crate::server) struct Tasks {
    pub(super) store: Store,
    pub(super) clock: Clock,
    live: Mutex<HashMap<String, Arc<LiveTask>>>,
}

/// A running task.
pub(super) struct LiveTask {
    cancel: CancellationToken,
    state: Mutex<TaskState>,
}

struct TaskState {
    record: TaskRecord,
    open: OpenQuestions,
}

impl Tasks {
    pub(in crate::server) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, live: Mutex::default() }
    }

    /// Stores a new task. False if its owner has too many.
    pub(super) async fn insert(&self, record: TaskRecord) -> Result<bool, StoreError> {
        let hub = self.store.instance_id().to_owned();
        self.store.write(move |conn| Box::pin(async move { conn.insert_mcp_task(&hub, &record).await })).await
    }

    /// The running task with this id, if it belongs to this owner.
    pub(super) fn live(&self, owner: &str, id: &str) -> Option<Arc<LiveTask>> {
        let live = self.all().get(id).cloned();
        live.filter(|live| live.state().record.owner == owner)
    }

    /// The number of running tasks.
    pub(in crate::server) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveTask>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the end of a task, with retries while the database is unavailable. Until then the task has not ended;
    /// if the hub stops first, its outcome is unknown.
    async fn end(&self, id: &str, end: TaskEnd, stopping: &CancellationToken) {
        loop {
            let (id, end, now) = (id.to_owned(), end.clone(), self.clock.now());
            let ended = self
                .store
                .write(move |conn| Box::pin(async move { conn.end_mcp_task(&id, &end, now).await }));
            let Err(error) = ended.await else { return };
            tracing::warn!(%error, "cannot store the end of a task; trying again");
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("live", &self.count()).finish_non_exhaustive()
    }
}

impl LiveTask {
    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All members of the task in its current state.
    pub(super) fn members(&self) -> String {
        let TaskState { record, open } = &mut *self.state();
        if open.is_empty() {
            return task_members(record, "\"status\":\"working\"");
        }
        let status = format!("\"status\":\"input_required\",\"inputRequests\":{}", open.requests());
        task_members(record, &status)
    }

    /// Accepts answers to its questions.
    pub(super) fn accept_answers(
        &self,
        responses: Option<&RawValue>,
        now: Timestamp,
    ) -> Result<(), RpcError> {
        let mut state = self.state();
        state.record.updated_at = now;
        state.open.accept(responses)
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    fn add_questions(&self, round: QuestionRound, now: Timestamp) {
        let mut state = self.state();
        state.record.updated_at = now;
        state.open.add(round);
    }

    fn close_questions(&self, why: &AskError) {
        self.state().open.close(why);
    }
}

/// Runs a stored task to its end, in a supervised task.
pub(super) fn spawn(state: &Arc<State>, record: TaskRecord, call: RunningCall) {
    let id = record.id.clone();
    let task_state = Mutex::new(TaskState { record, open: OpenQuestions::new(KeyReuse::Never) });
    let live = Arc::new(LiveTask { cancel: call.cancel.clone(), state: task_state });
    state.tasks.all().insert(id.clone(), live.clone());
    let state = state.clone();
    state.supervisor.clone().spawn(Stage::Work, "MCP task", async move {
        let end = catch_panic(drive(&state, &live, call)).await;
        state.tasks.end(&id, end, &state.stopping).await;
        // From now on the stored task is read.
        state.tasks.all().remove(&id);
    });
}

/// Ends the task also if its driver panics. Otherwise clients would poll it forever.
async fn catch_panic(driver: impl Future<Output = TaskEnd>) -> TaskEnd {
    AssertUnwindSafe(driver).catch_unwind().await.unwrap_or_else(|_| end::hub_failed())
}

/// Drives the call. Its questions wait for `tasks/update`; a task reports only its state, so other events are
/// dropped.
async fn drive(state: &State, live: &LiveTask, mut call: RunningCall) -> TaskEnd {
    let mut deadline = None;
    loop {
        tokio::select! {
        step = call.next() => match step {
                    CallStep::Ended(reply) => return end::from_reply(reply),
                    CallStep::Event(CallEvent::Questions(round)) => {
                        live.add_questions(round, state.tasks.clock.now());
                        deadline = Some(Instant::now() + QUESTION_TIMEOUT);
                    }
                    CallStep::Event(CallEvent::Progress(_) | CallEvent::Log(_)) => {}
                },
                () = state.stopping.cancelled() => break,
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    live.close_questions(&AskError::Expired);
                    deadline = None;
                }
            }
    }
    // The hub stops.
    live.close_questions(&AskError::Gone);
    call.cancel.cancel();
    loop {
        if let CallStep::Ended(reply) = call.next().await {
            let end = end::from_reply(reply);
            // Reported as lost, because the owner did not request the cancellation.
            return if end.status == TaskStatus::Cancelled { end::lost() } else { end };
        }
    }
}

#[cfg(test)]
mod tests;
