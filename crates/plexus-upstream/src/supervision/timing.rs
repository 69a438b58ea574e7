//! All time limits in one place, so that tests can shorten them.

use std::time::Duration;

pub use plexus_kit::backoff::Jitter;

/// The timing of units; [`Default`] is used by a hub in production.
#[derive(Debug, Clone)]
pub struct Timing {
    /// How long the tools of an unavailable server stay listed.
    pub grace: Duration,
    /// Time limit for a server to start and initialize, and for it to list its tools.
    pub connect: Duration,
    /// How long a call waits for a server that is starting.
    pub start: Duration,
    /// Pause before the second attempt; the first follows immediately, and each further attempt doubles the
    /// pause.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// Uptime after which the next failure counts as the first.
    pub sustained: Duration,
    /// Number of failures within `crash_window` that make a crash loop.
    pub crashes: usize,
    pub crash_window: Duration,
    /// Pause before a server that was given up is retried, in case the cause is gone.
    pub given_up: Duration,
    /// Pause before a token that was rejected right after its renewal is renewed again, in case the cause is
    /// gone.
    pub renew_again: Duration,
    /// Minimum interval between list requests to a server that reports changes.
    pub relist: Duration,
    /// Silence after which a server is pinged.
    pub ping: Duration,
    /// Time limit for the answer to a ping.
    pub ping_answer: Duration,
    /// Idle time after which a lazy server is stopped or a session's connection is closed.
    pub idle: Duration,
    /// Interval between polls of the folder.
    pub watch: Duration,
    /// Pause before the poll that confirms a change.
    pub confirm: Duration,
    /// Time limit for calls in flight when the hub stops or the file changes. Together with `close` it is
    /// shorter than a stage of the shutdown.
    pub drain: Duration,
    /// Time limit for closing a connection.
    pub close: Duration,
    /// How long a reload, a restart or a test waits for the outcome.
    pub settle: Duration,
    /// Spreads attempts, so that servers that were lost together do not all return at once.
    pub jitter: Jitter,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(60),
            // A package runner may have to download the server first.
            connect: Duration::from_secs(60),
            start: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
            sustained: Duration::from_secs(60),
            crashes: 8,
            crash_window: Duration::from_secs(600),
            given_up: Duration::from_secs(600),
            renew_again: Duration::from_secs(45),
            relist: Duration::from_millis(500),
            ping: Duration::from_secs(30),
            ping_answer: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            watch: Duration::from_millis(700),
            confirm: Duration::from_millis(250),
            drain: Duration::from_secs(4),
            close: Duration::from_secs(5),
            settle: Duration::from_secs(15),
            jitter: Jitter::random(),
        }
    }
}
