//! How long is waited for what, in one place, so that a test need not wait as long.

use std::time::Duration;

pub use plexus_kit::backoff::Jitter;

/// What the units go by; [`Default`] is what a hub runs with.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Tools of a server that is away stay listed for so long.
    pub grace: Duration,
    /// For a server to start and say who it is, and for it to list its tools.
    pub connect: Duration,
    /// A call waits so long for a server that is being started.
    pub start: Duration,
    /// Before the second attempt; the first follows at once, and each after it doubles the pause.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// A server that was there for so long is a good one: its next failure counts as the first.
    pub sustained: Duration,
    /// So many failures within `crash_window` are a crash loop.
    pub crashes: usize,
    pub crash_window: Duration,
    /// A server that was given up is tried again after this, in case its reason has gone away.
    pub given_up: Duration,
    /// Access that was refused as soon as it was renewed is renewed once more after this: the reason may have gone away.
    pub renew_again: Duration,
    /// Between two lists of a server that says that they change.
    pub relist: Duration,
    /// A server that was not heard for so long is asked whether it is there.
    pub ping: Duration,
    /// So long it may think about the answer.
    pub ping_answer: Duration,
    /// A lazy server without calls is stopped after this, and so is a connection of a session.
    pub idle: Duration,
    /// Between two looks at the folder.
    pub watch: Duration,
    /// Before the look that must see the same once one has seen a change.
    pub confirm: Duration,
    /// Calls in flight may take so long when the hub stops or the file changes. With `close` it is shorter than a
    /// stage of the shutdown.
    pub drain: Duration,
    /// A connection may take so long to close.
    pub close: Duration,
    /// A reload, a restart or a test tells how a server has come up, if it takes no longer than this.
    pub settle: Duration,
    /// Spreads attempts, so that servers that went away together do not come back together.
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
