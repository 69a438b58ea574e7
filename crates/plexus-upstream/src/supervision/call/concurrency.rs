//! Limits the number of concurrent calls to a server.
//!
//! Calls beyond `max_concurrency` wait in FIFO order, at most [`MAX_WAITING`] of them; further calls are rejected
//! immediately, because they would hardly ever run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit of calls that wait for one server.
const MAX_WAITING: usize = 128;

/// Replaced when the limit changes; running calls release their permits of the old gate.
#[derive(Debug)]
pub(in crate::supervision) struct Gate {
    limit: Option<usize>,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Gate {
    pub(in crate::supervision) fn new(limit: Option<usize>) -> Self {
        let permits = limit.unwrap_or(0).min(Semaphore::MAX_PERMITS);
        Self { limit, permits: Arc::new(Semaphore::new(permits)), waiting: AtomicUsize::new(0) }
    }

    pub(in crate::supervision) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Acquires a permit, released on drop. Returns none if there is no limit.
    pub(super) async fn enter(&self, server: &str) -> Result<Option<OwnedSemaphorePermit>, CallError> {
        let Some(limit) = self.limit else { return Ok(None) };
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let waiting = WaitingCount::new(&self.waiting);
        if waiting.before >= MAX_WAITING {
            let message =
                format!("{server} runs {limit} calls at a time, and {MAX_WAITING} calls are already waiting");
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for running calls to end and call again."));
        }
        // The semaphore is never closed.
        Ok(self.permits.clone().acquire_owned().await.ok())
    }
}

/// Counts a waiting call until dropped, even if the caller stops waiting.
struct WaitingCount<'g> {
    count: &'g AtomicUsize,
    before: usize,
}

impl<'g> WaitingCount<'g> {
    fn new(count: &'g AtomicUsize) -> Self {
        Self { before: count.fetch_add(1, Ordering::Relaxed), count }
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
