//! The background tasks of a process: spawned by name, watched, and drained in order at shutdown.
//!
//! Shutdown proceeds stage by stage. It cancels the token of a stage and waits until its tasks end or the
//! deadline passes before it starts the next stage. Thus intake closes before calls finish, and calls finish
//! before the writer that records them. Tasks that do not end in time are logged by name and aborted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Shutdown stages, first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Accepts work: listeners, connections, streams.
    Intake,
    /// Executes accepted work: calls in flight.
    Work,
    /// Records results: the writer, the audit anchor.
    Storage,
}

impl Stage {
    const ORDER: [Self; 3] = [Self::Intake, Self::Work, Self::Storage];
}

/// Delay before the first restart of a task; doubled for each further restart.
const RESTART_DELAY: Duration = Duration::from_millis(100);
/// A run of this length resets the restart delay.
const STABLE_RUN: Duration = Duration::from_secs(10);

/// Cheap to clone; all clones share one supervisor.
#[derive(Clone)]
pub struct Supervisor(Arc<Inner>);

struct Inner {
    /// In the order of [`Stage::ORDER`].
    stages: [StageState; 3],
    next_id: AtomicU64,
}

#[derive(Default)]
struct StageState {
    tracker: TaskTracker,
    stop: CancellationToken,
    running: Arc<Mutex<Running>>,
}

/// Running tasks by id. The name is usually a static string, which keeps the per-call task cheap.
type Running = HashMap<u64, (Cow<'static, str>, AbortHandle)>;

/// Result of a shutdown.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Names of the tasks that did not end in time and were aborted.
    pub aborted: Vec<String>,
}

impl Supervisor {
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a supervisor is created once, explicitly")]
    pub fn new() -> Self {
        let stages = Stage::ORDER.map(|_| StageState::default());
        Self(Arc::new(Inner { stages, next_id: AtomicU64::new(0) }))
    }

    fn stage(&self, stage: Stage) -> &StageState {
        &self.0.stages[stage as usize]
    }

    /// Cancelled when the stage shuts down.
    #[must_use]
    pub fn stopping(&self, stage: Stage) -> CancellationToken {
        self.stage(stage).stop.clone()
    }

    /// Runs `task` until it ends. A panic is logged with the task's name and ends only this task.
    #[expect(clippy::disallowed_methods, reason = "the only place that spawns")]
    pub fn spawn<F>(&self, stage: Stage, name: impl Into<Cow<'static, str>>, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = self.stage(stage);
        let name = name.into();
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let removed = Arc::new(AtomicBool::new(false));
        let watch = TaskGuard {
            id,
            name: name.clone(),
            running: state.running.clone(),
            removed: removed.clone(),
            finished: false,
        };
        let handle = tokio::spawn(state.tracker.track_future(async move {
            let mut watch = watch;
            task.await;
            watch.finished = true;
        }));
        // Inserted after spawning: a runtime that is shutting down drops the task immediately, inside
        // `spawn`. A task that is already gone is not inserted; one that ends later removes itself.
        let mut running = state.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !removed.load(Ordering::Acquire) {
            running.insert(id, (name, handle.abort_handle()));
        }
    }

    /// Runs work within the caller's task, which saves the cost of a separate task. If the caller is dropped,
    /// the rest continues as a task: the work always completes.
    pub fn run_to_completion<F>(
        &self,
        stage: Stage,
        name: &'static str,
        work: F,
    ) -> RunToCompletion<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let tracker_token = self.stage(stage).tracker.token();
        RunToCompletion {
            work: Some(Box::pin(work)),
            stage,
            name,
            supervisor: self.clone(),
            _tracker_token: tracker_token,
        }
    }

    /// Runs `restart()` again whenever it ends, with backoff, until the stage stops.
    pub fn spawn_restarting<F, Fut>(&self, stage: Stage, name: impl Into<Cow<'static, str>>, mut restart: F)
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stopping(stage);
        let name = name.into();
        self.spawn(stage, name.clone(), async move {
            let mut pause = RESTART_DELAY;
            loop {
                let begun = tokio::time::Instant::now();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    ended = AssertUnwindSafe(restart()).catch_unwind() => if ended.is_err() {
                        tracing::error!(task = %name, "task panicked");
                    }
                }
                if begun.elapsed() > STABLE_RUN {
                    pause = RESTART_DELAY;
                }
                tracing::warn!(task = %name, ?pause, "task ended, restarting");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(Duration::from_secs(10));
            }
        });
    }

    /// Number of live tasks in a stage.
    #[must_use]
    pub fn count(&self, stage: Stage) -> usize {
        self.stage(stage).tracker.len()
    }

    /// Stops the stages in order; `grace` applies to each.
    pub async fn shutdown(&self, grace: Duration) -> Drained {
        let mut drained = Drained::default();
        for stage in Stage::ORDER {
            let state = self.stage(stage);
            state.tracker.close();
            state.stop.cancel();
            if tokio::time::timeout(grace, state.tracker.wait()).await.is_ok() {
                continue;
            }
            let stuck: Vec<_> = state
                .running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain()
                .map(|(_, task)| task)
                .collect();
            for (name, abort) in stuck {
                tracing::error!(task = %name, ?stage, "task did not stop in time and was aborted");
                abort.abort();
                drained.aborted.push(name.into_owned());
            }
            // Work polled by callers cannot be aborted here; waiting for it is bounded too.
            let _ = tokio::time::timeout(grace, state.tracker.wait()).await;
        }
        drained
    }
}

/// Work that always completes: polled by the caller, or by a task once the caller drops it.
#[must_use = "the work runs only while this is polled or after it is dropped"]
pub struct RunToCompletion<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    stage: Stage,
    name: &'static str,
    supervisor: Supervisor,
    /// Keeps the stage open until the work ends.
    _tracker_token: TaskTrackerToken,
}

impl<T: Send + 'static> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Polling again after completion stays pending.
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        // Work that panicked cannot continue, and without a runtime nothing can run.
        let removed = std::thread::panicking() || Handle::try_current().is_err();
        if let Some(work) = self.work.take().filter(|_| !removed) {
            self.supervisor.spawn(self.stage, self.name, async { drop(work.await) });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for RunToCompletion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunToCompletion").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Stage::ORDER.map(|stage| (stage, self.count(stage)));
        f.debug_struct("Supervisor").field("tasks", &counts).finish()
    }
}

/// Removes a task from the list when it ends, and logs a panic.
struct TaskGuard {
    id: u64,
    name: Cow<'static, str>,
    running: Arc<Mutex<Running>>,
    /// Set before the removal from the list.
    removed: Arc<AtomicBool>,
    finished: bool,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.removed.store(true, Ordering::Release);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if !self.finished && std::thread::panicking() {
            tracing::error!(task = %self.name, "task panicked");
        }
    }
}

#[cfg(test)]
mod tests;
