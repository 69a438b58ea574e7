//! Tasks that run now.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use plexus_kit::{Clock, Stage};
use plexus_proto::Timestamp;
use plexus_store::{Store, StoreError, TaskEnd, TaskRecord, TaskStatus};
use plexus_tools::Unasked;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{end, members};
use crate::server::State;
use crate::server::detached::answers::{Keys, Open};
use crate::server::rpc::RpcError;
use crate::server::running_call::{CallEvent, Next, Round, RunningCall};

/// How long a question of a task waits for its answer.
const ASKED: Duration = Duration::from_secs(600);
/// Between two attempts to store how a task ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Those of this hub, and where all of them are stored.
pub(in crate::server) struct Tasks {
    pub(super) store: Store,
    pub(super) clock: Clock,
    live: Mutex<HashMap<String, Arc<Live>>>,
}

/// A task that runs.
pub(super) struct Live {
    cancel: CancellationToken,
    state: Mutex<Standing>,
}

struct Standing {
    record: TaskRecord,
    open: Open,
}

impl Tasks {
    pub(in crate::server) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, live: Mutex::default() }
    }

    /// Stores a task that begins; false when its owner has too many.
    pub(super) async fn insert(&self, record: TaskRecord) -> Result<bool, StoreError> {
        let hub = self.store.instance_id().to_owned();
        self.store.write(move |conn| Box::pin(async move { conn.insert_mcp_task(&hub, &record).await })).await
    }

    /// A task of this owner, while it runs.
    pub(super) fn live(&self, owner: &str, id: &str) -> Option<Arc<Live>> {
        let live = self.all().get(id).cloned();
        live.filter(|live| live.standing().record.owner == owner)
    }

    /// Tasks that run.
    pub(in crate::server) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores how a task ended. While the database is away it is tried again: until then the task has not ended, and
    /// should the hub stop before, nobody knows how it did.
    async fn end(&self, id: &str, end: TaskEnd, stopping: &CancellationToken) {
        loop {
            let (id, end, now) = (id.to_owned(), end.clone(), self.clock.now());
            let ended = self
                .store
                .write(move |conn| Box::pin(async move { conn.end_mcp_task(&id, &end, now).await }));
            let Err(error) = ended.await else { return };
            tracing::warn!(%error, "how a task ended cannot be stored");
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("live", &self.count()).finish_non_exhaustive()
    }
}

impl Live {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All members of the task, as it stands.
    pub(super) fn members(&self) -> String {
        let Standing { record, open } = &mut *self.standing();
        if open.is_empty() {
            return members(record, "\"status\":\"working\"");
        }
        let asking = format!("\"status\":\"input_required\",\"inputRequests\":{}", open.requests());
        members(record, &asking)
    }

    /// Takes answers to what it asks.
    pub(super) fn give(&self, responses: Option<&RawValue>, now: Timestamp) -> Result<(), RpcError> {
        let mut standing = self.standing();
        standing.record.updated_at = now;
        standing.open.give(responses)
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    fn asked(&self, round: Round, now: Timestamp) {
        let mut standing = self.standing();
        standing.record.updated_at = now;
        standing.open.add(round);
    }

    fn close(&self, why: &Unasked) {
        self.standing().open.close(why);
    }
}

/// Runs a task that is stored to its end.
pub(super) fn follow(state: &Arc<State>, record: TaskRecord, call: RunningCall) {
    let id = record.id.clone();
    let standing = Mutex::new(Standing { record, open: Open::new(Keys::Unique) });
    let live = Arc::new(Live { cancel: call.cancel.clone(), state: standing });
    state.tasks.all().insert(id.clone(), live.clone());
    let state = state.clone();
    state.supervisor.clone().spawn(Stage::Work, "MCP task", async move {
        let end = to_an_end(drive(&state, &live, call)).await;
        state.tasks.end(&id, end, &state.stopping).await;
        // Whoever asks from now on reads what is stored.
        state.tasks.all().remove(&id);
    });
}

/// Where the hub itself fails the task has an end too: one that is never over would be waited for.
async fn to_an_end(driven: impl Future<Output = TaskEnd>) -> TaskEnd {
    AssertUnwindSafe(driven).catch_unwind().await.unwrap_or_else(|_| end::broken())
}

/// Drives the call. Its questions wait for `tasks/update`; a task tells how it stands and nothing else, so the rest of what
/// it says is dropped.
async fn drive(state: &State, live: &Live, mut call: RunningCall) -> TaskEnd {
    let mut patience = None;
    loop {
        tokio::select! {
            next = call.next() => match next {
                Next::Ended(reply) => return end::of(reply),
                Next::Event(CallEvent::Asked(round)) => {
                    live.asked(round, state.tasks.clock.now());
                    patience = Some(Instant::now() + ASKED);
                }
                Next::Event(CallEvent::Progress(_) | CallEvent::Log(_)) => {}
            },
            () = state.stopping.cancelled() => break,
            () = tokio::time::sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {
                live.close(&Unasked::Expired);
                patience = None;
            }
        }
    }
    // Nobody can answer it now, or wait for it.
    live.close(&Unasked::Gone);
    call.cancel.cancel();
    loop {
        if let Next::Ended(reply) = call.next().await {
            let end = end::of(reply);
            // That it was cancelled here is no news to its owner, who did not ask for it.
            return if end.status == TaskStatus::Cancelled { end::lost() } else { end };
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_store::TaskStatus;

    use super::to_an_end;

    #[tokio::test]
    async fn a_task_that_the_hub_fails_to_follow_has_failed_and_says_that_nobody_knows() {
        let end = to_an_end(async { panic!("a fault of the hub") }).await;
        assert_eq!(end.status, TaskStatus::Failed);
        assert!(end.message.unwrap().contains("nobody knows whether it has done its work"));
    }
}
