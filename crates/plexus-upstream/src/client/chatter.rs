//! Output of a server that is not an MCP message: a banner, a log, a prompt. While the server does not
//! answer, the last such line is the best hint at the cause.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::detail;
use super::stderr::{self, Withheld};

/// The last output of one connection that was not an MCP message.
#[derive(Default)]
pub struct Chatter(Mutex<LastOutput>);

#[derive(Default)]
struct LastOutput {
    /// The raw bytes, as many as can be shown.
    last: Option<Vec<u8>>,
    withheld: Withheld,
}

impl Chatter {
    /// Starts over for a new connection; `withheld` holds the secrets that its server was given.
    pub(super) fn begin(&self, withheld: Withheld) {
        *self.lock() = LastOutput { last: None, withheld };
    }

    pub(super) fn record(&self, line: &[u8]) {
        let mut output = self.lock();
        let most = stderr::readable(&output.withheld).min(line.len());
        output.last = Some(line[..most].to_vec());
    }

    /// One short line with credentials removed.
    #[must_use]
    pub fn last(&self) -> Option<String> {
        let output = self.lock();
        output.last.as_ref().map(|line| stderr::shown_without(line, &output.withheld))
    }

    /// Appends the last output to a description of what happened.
    pub(super) fn explain(&self, message: String) -> String {
        match self.last() {
            Some(line) => detail::with_last_sent(&message, &line),
            None => message,
        }
    }

    fn lock(&self) -> MutexGuard<'_, LastOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Chatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chatter").finish_non_exhaustive()
    }
}
