//! How much of its log the server of a session was asked for.

use std::sync::atomic::{AtomicU8, Ordering};

use plexus_tools::LogLevel;

/// The least level that a call on this connection has wanted. One level is for all of them: what one caller does not want
/// to read is left out when it comes.
#[derive(Debug)]
pub(super) struct Verbosity(AtomicU8);

impl Verbosity {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(u8::MAX))
    }

    /// Whether the server has to be told that this much is wanted.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        self.0.fetch_min(level as u8, Ordering::Relaxed) > level as u8
    }

    /// The session is another one, which was told nothing.
    pub(super) fn forget(&self) {
        self.0.store(u8::MAX, Ordering::Relaxed);
    }
}
