//! How many calls a server gets at a time.
//!
//! More than `max_concurrency` wait in the order they came, up to [`WAITING`]; who comes then is turned away at once,
//! because waiting behind so many is waiting for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls that wait for one server.
const WAITING: usize = 128;

/// Replaced when the limit changes; calls that are inside leave the old one.
#[derive(Debug)]
pub(in crate::supervision) struct Gate {
    limit: Option<usize>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Gate {
    pub(in crate::supervision) fn new(limit: Option<usize>) -> Self {
        let places = limit.unwrap_or(0).min(Semaphore::MAX_PERMITS);
        Self { limit, places: Arc::new(Semaphore::new(places)), waiting: AtomicUsize::new(0) }
    }

    pub(in crate::supervision) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// A place, which is free again when it is dropped; none is needed where there is no limit.
    pub(super) async fn enter(&self, server: &str) -> Result<Option<OwnedSemaphorePermit>, CallError> {
        let Some(limit) = self.limit else { return Ok(None) };
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(Some(place));
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= WAITING {
            let message = format!("{server} runs {limit} calls at a time, and {WAITING} wait for it already");
            return Err(CallError::new(ErrorCode::Overloaded, message)
                .hint("Nothing was run. Wait for calls to end and call again."));
        }
        // Never closed.
        Ok(self.places.clone().acquire_owned().await.ok())
    }
}

/// Counted until it is dropped, also by a caller that no longer wants to wait.
struct Waiting<'g> {
    count: &'g AtomicUsize,
    before: usize,
}

impl<'g> Waiting<'g> {
    fn new(count: &'g AtomicUsize) -> Self {
        Self { before: count.fetch_add(1, Ordering::Relaxed), count }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn as_many_as_may_run_do_so_many_wait_and_the_rest_are_turned_away() {
        let gate = Gate::new(Some(2));
        let running = [gate.enter("s").await.unwrap(), gate.enter("s").await.unwrap()];
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(gate.enter("s"))).collect();
        for enter in &mut waiting {
            assert!(enter.now_or_never().is_none());
        }
        let turned_away = gate.enter("s").await.unwrap_err();
        assert_eq!(turned_away.code, ErrorCode::Overloaded);
        drop(running);
        // In the order they came.
        assert!((&mut waiting[0]).now_or_never().unwrap().unwrap().is_some());
        drop(waiting);
        assert!(gate.enter("s").now_or_never().unwrap().unwrap().is_some(), "those who left are not counted");
    }

    #[tokio::test]
    async fn without_a_limit_nobody_waits() {
        assert!(Gate::new(None).enter("s").await.unwrap().is_none());
    }
}
