//! The stream of one call, kept so that it can be resumed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Messages kept; older ones (progress, all but the last) are dropped first.
const KEPT: usize = 256;

/// Bytes that all finished streams of the hub may keep for clients that may come back.
const BUDGET: usize = 64 << 20;
/// How long a client may take to come back.
const KEEP: Duration = Duration::from_secs(300);

/// Bytes kept by all streams.
pub(in crate::server) type Kept = Arc<AtomicUsize>;

#[derive(Debug)]
pub(super) struct StreamLog {
    /// In the ids of its events.
    name: String,
    kept: Kept,
    state: Mutex<LogState>,
    /// Moves when there is something new to read.
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Number of the last message pushed.
    last: u64,
    messages: VecDeque<(u64, String)>,
    bytes: usize,
    finished_at: Option<Instant>,
}

/// What comes next on a stream.
pub(super) enum Next {
    Message(u64, String),
    /// Nothing yet.
    Wait,
    End,
}

impl StreamLog {
    pub(super) fn new(name: String, kept: Kept) -> Self {
        Self { name, kept, state: Mutex::default(), moved: watch::Sender::new(()) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn push(&self, message: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(state.push(message));
        drop(state);
        self.moved.send_replace(());
    }

    /// The last message, if there is one, and the end.
    pub(super) fn finish(&self, message: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = message {
            self.count(state.push(message));
        }
        state.finished_at = Some(Instant::now());
        drop(state);
        self.moved.send_replace(());
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).finished_at.is_some()
    }

    /// Finished, and too long ago or too costly to be kept.
    pub(super) fn is_stale(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finished_at.is_some_and(|at| at.elapsed() > KEEP || self.kept.load(Ordering::Relaxed) > BUDGET)
    }

    fn count(&self, (added, removed): (usize, usize)) {
        self.kept.fetch_add(added, Ordering::Relaxed);
        self.kept.fetch_sub(removed, Ordering::Relaxed);
    }

    /// What follows message `after`.
    pub(super) fn next(&self, after: u64) -> Next {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.messages.iter().find(|(number, _)| *number > after) {
            Some((number, message)) => Next::Message(*number, message.clone()),
            None if state.finished_at.is_some() => Next::End,
            None => Next::Wait,
        }
    }

    pub(super) fn moves(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }
}

impl Drop for StreamLog {
    fn drop(&mut self) {
        let bytes = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).bytes;
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl LogState {
    /// Bytes added and removed.
    fn push(&mut self, message: String) -> (usize, usize) {
        let removed = match self.messages.len() {
            KEPT => self.messages.pop_front().map_or(0, |(_, oldest)| oldest.len()),
            _ => 0,
        };
        let added = message.len();
        self.bytes = self.bytes + added - removed;
        self.last += 1;
        self.messages.push_back((self.last, message));
        (added, removed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{BUDGET, KEPT, Kept, StreamLog};

    #[test]
    fn what_is_kept_is_counted_and_over_the_budget_nothing_finished_stays() {
        let kept = Kept::default();
        let log = StreamLog::new("one".to_owned(), kept.clone());
        for _ in 0..KEPT + 10 {
            log.push("x".repeat(100));
        }
        assert_eq!(kept.load(Ordering::Relaxed), KEPT * 100);
        assert!(!log.is_stale(), "it still runs");
        log.finish(Some("y".repeat(100)));
        assert!(!log.is_stale(), "a client may come back for it");
        let large = StreamLog::new("two".to_owned(), kept.clone());
        large.push("z".repeat(BUDGET));
        assert!(log.is_stale(), "there is no room to wait for its client");
        drop((log, large));
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }
}
