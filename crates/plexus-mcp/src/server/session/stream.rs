//! The stream of one call, kept so that it can be resumed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Messages kept; older ones (progress, all but the last) are dropped first.
const KEPT: usize = 256;

#[derive(Debug)]
pub(super) struct StreamLog {
    number: u64,
    state: Mutex<LogState>,
    /// Moves when there is something new to read.
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Number of the last message pushed.
    last: u64,
    messages: VecDeque<(u64, String)>,
    finished: bool,
}

/// What comes next on a stream.
pub(super) enum Next {
    Message(u64, String),
    /// Nothing yet.
    Wait,
    End,
}

impl StreamLog {
    pub(super) fn new(number: u64) -> Self {
        Self { number, state: Mutex::default(), moved: watch::Sender::new(()) }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn push(&self, message: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.push(message);
        drop(state);
        self.moved.send_replace(());
    }

    /// The last message, if there is one, and the end.
    pub(super) fn finish(&self, message: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = message {
            state.push(message);
        }
        state.finished = true;
        drop(state);
        self.moved.send_replace(());
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).finished
    }

    /// What follows message `after`.
    pub(super) fn next(&self, after: u64) -> Next {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.messages.iter().find(|(number, _)| *number > after) {
            Some((number, message)) => Next::Message(*number, message.clone()),
            None if state.finished => Next::End,
            None => Next::Wait,
        }
    }

    pub(super) fn moves(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }
}

impl LogState {
    fn push(&mut self, message: String) {
        if self.messages.len() == KEPT {
            self.messages.pop_front();
        }
        self.last += 1;
        self.messages.push_back((self.last, message));
    }
}
