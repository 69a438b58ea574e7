//! What a server sends that is no message: a banner, a log, a question to a person. While it does not answer, the last of
//! it tells why better than anything else.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::detail;
use super::stderr::{self, Withheld};

/// The last of what one connection sent that is no message.
#[derive(Default)]
pub struct Chatter(Mutex<LastOutput>);

#[derive(Default)]
struct LastOutput {
    /// As it came, as far as any of it can be shown.
    last: Option<Vec<u8>>,
    withheld: Withheld,
}

impl Chatter {
    /// From here on it is about another connection, whose server was told this in confidence.
    pub(super) fn begin(&self, withheld: Withheld) {
        *self.said() = LastOutput { last: None, withheld };
    }

    pub(super) fn hear(&self, line: &[u8]) {
        let mut said = self.said();
        let most = stderr::readable(&said.withheld).min(line.len());
        said.last = Some(line[..most].to_vec());
    }

    /// One short line without credentials.
    #[must_use]
    pub fn last(&self) -> Option<String> {
        let said = self.said();
        said.last.as_ref().map(|line| stderr::shown_without(line, &said.withheld))
    }

    /// What happened, and what came instead of a message.
    pub(super) fn explain(&self, what: String) -> String {
        match self.last() {
            Some(line) => detail::with_last_sent(&what, &line),
            None => what,
        }
    }

    fn said(&self) -> MutexGuard<'_, LastOutput> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Chatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chatter").finish_non_exhaustive()
    }
}
