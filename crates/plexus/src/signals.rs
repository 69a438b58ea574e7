//! The signals that ask a process to stop.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for SIGTERM, SIGINT and SIGHUP. Create it before starting anything, so that a signal during startup is not
/// lost.
#[derive(Debug)]
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self([
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            // Sent if the terminal is closed.
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
