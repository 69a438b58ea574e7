//! The stream of one call, kept so that it can be resumed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Messages kept. Progress and log lines go first, the oldest of them; questions and the result stay.
const KEPT: usize = 256;

/// Bytes that all finished streams of the hub may keep for clients that may come back.
const BUDGET: usize = 64 << 20;
/// How long a client may take to come back.
const KEEP: Duration = Duration::from_secs(300);

/// Bytes kept by all streams.
pub(in crate::server) type BufferedBytes = Arc<AtomicUsize>;

#[derive(Debug)]
pub(super) struct StreamLog {
    /// In the ids of its events.
    name: String,
    kept: BufferedBytes,
    state: Mutex<LogState>,
    /// Moves when there is something new to read.
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Number of the last message pushed.
    last: u64,
    messages: VecDeque<Message>,
    bytes: usize,
    finished_at: Option<Instant>,
}

#[derive(Debug)]
struct Message {
    number: u64,
    json: String,
    /// Who has missed it has missed little.
    passing: bool,
}

/// What comes next on a stream.
pub(super) enum Next {
    Message(u64, String),
    /// Nothing yet.
    Wait,
    End,
}

impl StreamLog {
    pub(super) fn new(name: String, kept: BufferedBytes) -> Self {
        Self { name, kept, state: Mutex::default(), moved: watch::Sender::new(()) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A message that the client needs.
    pub(super) fn push(&self, json: String) {
        self.add(json, false);
    }

    /// A message that is dropped where there is no room: progress, or a line of a log.
    pub(super) fn push_passing(&self, json: String) {
        self.add(json, true);
    }

    fn add(&self, json: String, passing: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(state.push(json, passing));
        drop(state);
        self.moved.send_replace(());
    }

    /// The last message, if there is one, and the end.
    pub(super) fn finish(&self, message: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = message {
            self.count(state.push(message, false));
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
        match state.messages.iter().find(|message| message.number > after) {
            Some(message) => Next::Message(message.number, message.json.clone()),
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
    fn push(&mut self, json: String, passing: bool) -> (usize, usize) {
        let added = json.len();
        self.last += 1;
        self.messages.push_back(Message { number: self.last, json, passing });
        let removed = if self.messages.len() > KEPT { self.drop_one() } else { 0 };
        self.bytes = self.bytes + added - removed;
        (added, removed)
    }

    /// Drops the oldest message that may be missed, or the oldest of all; its bytes.
    fn drop_one(&mut self) -> usize {
        let victim = self.messages.iter().position(|message| message.passing).unwrap_or(0);
        self.messages.remove(victim).map_or(0, |message| message.json.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{BUDGET, BufferedBytes, KEPT, Next, StreamLog};

    #[test]
    fn what_may_be_missed_makes_room_for_what_may_not() {
        let kept = BufferedBytes::default();
        let log = StreamLog::new("one".to_owned(), kept.clone());
        log.push_passing("a line".to_owned());
        log.push("a question".to_owned());
        for _ in 0..KEPT + 10 {
            log.push_passing("a line".to_owned());
        }
        let Next::Message(2, question) = log.next(0) else {
            panic!("the question is not the first any more")
        };
        assert_eq!(question, "a question");
        assert_eq!(kept.load(Ordering::Relaxed), question.len() + (KEPT - 1) * "a line".len());
        for _ in 0..KEPT {
            log.push("more of it".to_owned());
        }
        assert_eq!(kept.load(Ordering::Relaxed), KEPT * "more of it".len(), "there is a limit to all");
        let last = log.state.lock().unwrap().last;
        log.push_passing("a line".to_owned());
        assert!(matches!(log.next(last), Next::Wait), "it has no room");
    }

    #[test]
    fn what_is_kept_is_counted_and_over_the_budget_nothing_finished_stays() {
        let kept = BufferedBytes::default();
        let log = StreamLog::new("one".to_owned(), kept.clone());
        for _ in 0..KEPT + 10 {
            log.push_passing("x".repeat(100));
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
