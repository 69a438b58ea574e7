//! The buffered stream of one call, so that it can be resumed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Most buffered messages. The oldest progress and log lines are dropped first; questions and the result stay.
const MAX_MESSAGES: usize = 256;

/// Limit of the total size of all streams, in bytes. Above it, finished streams are dropped.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Time for which a finished stream can be resumed.
const KEEP_FINISHED: Duration = Duration::from_secs(300);

/// The total size of all streams, in bytes.
pub(in crate::server) type BufferedBytes = Arc<AtomicUsize>;

#[derive(Debug)]
pub(super) struct StreamLog {
    /// Part of the ids of its events.
    name: String,
    total_bytes: BufferedBytes,
    state: Mutex<LogState>,
    /// Signals new messages.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    /// The number of the last message.
    last: u64,
    messages: VecDeque<Message>,
    bytes: usize,
    finished_at: Option<Instant>,
}

#[derive(Debug)]
struct Message {
    number: u64,
    json: String,
    /// Whether it can be dropped when the buffer is full.
    droppable: bool,
}

/// The next message of a stream.
pub(super) enum NextMessage {
    Message(u64, String),
    /// Nothing yet.
    Wait,
    End,
}

impl StreamLog {
    pub(super) fn new(name: String, total_bytes: BufferedBytes) -> Self {
        Self { name, total_bytes, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Adds a message that the client needs.
    pub(super) fn push(&self, json: String) {
        self.add(json, false);
    }

    /// Adds a progress or log message, which is dropped if the buffer is full.
    pub(super) fn push_droppable(&self, json: String) {
        self.add(json, true);
    }

    fn add(&self, json: String, droppable: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(state.push(json, droppable));
        drop(state);
        self.changed.send_replace(());
    }

    /// Ends the stream, with a last message if there is one.
    pub(super) fn finish(&self, message: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = message {
            self.count(state.push(message, false));
        }
        state.finished_at = Some(Instant::now());
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).finished_at.is_some()
    }

    /// Whether it is finished, and expired or over the limit of the total size.
    pub(super) fn is_stale(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let over_limit = self.total_bytes.load(Ordering::Relaxed) > MAX_TOTAL_BYTES;
        state.finished_at.is_some_and(|at| at.elapsed() > KEEP_FINISHED || over_limit)
    }

    fn count(&self, (added, removed): (usize, usize)) {
        self.total_bytes.fetch_add(added, Ordering::Relaxed);
        self.total_bytes.fetch_sub(removed, Ordering::Relaxed);
    }

    /// The message after number `after`.
    pub(super) fn next(&self, after: u64) -> NextMessage {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.messages.iter().find(|message| message.number > after) {
            Some(message) => NextMessage::Message(message.number, message.json.clone()),
            None if state.finished_at.is_some() => NextMessage::End,
            None => NextMessage::Wait,
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Drop for StreamLog {
    fn drop(&mut self) {
        let bytes = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).bytes;
        self.total_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl LogState {
    /// Adds a message; returns the bytes added and removed.
    fn push(&mut self, json: String, droppable: bool) -> (usize, usize) {
        let added = json.len();
        self.last += 1;
        self.messages.push_back(Message { number: self.last, json, droppable });
        let removed = if self.messages.len() > MAX_MESSAGES { self.drop_one() } else { 0 };
        self.bytes = self.bytes + added - removed;
        (added, removed)
    }

    /// Drops the oldest droppable message, or the oldest of all; returns its size.
    fn drop_one(&mut self) -> usize {
        let victim = self.messages.iter().position(|message| message.droppable).unwrap_or(0);
        self.messages.remove(victim).map_or(0, |message| message.json.len())
    }
}

#[cfg(test)]
mod tests;
