//! The time of a call that goes to a machine: it counts from the moment that the call is on its way there.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How one call is sent to its machine.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The machine keeps it until its result was confirmed.
    pub(crate) keep: bool,
    pub(crate) key: Option<String>,
    /// It waits for a machine that is away: its time does not begin before it is sent.
    pub(crate) waits: bool,
    allowed: Duration,
    sent_at: OnceLock<Instant>,
    sent: CancellationToken,
}

impl Sending {
    pub(super) fn new(keep: bool, waits: bool, key: Option<String>, allowed: Duration) -> Self {
        let sending =
            Self { keep, key, waits, allowed, sent_at: OnceLock::new(), sent: CancellationToken::new() };
        if !waits {
            sending.sent();
        }
        sending
    }

    /// Its time begins now, unless it has begun.
    pub(crate) fn sent(&self) {
        self.sent_at.get_or_init(Instant::now);
        self.sent.cancel();
    }

    /// Ends when its time has begun.
    pub(super) async fn until_sent(&self) {
        self.sent.cancelled().await;
    }

    pub(crate) fn left(&self) -> Duration {
        let spent = self.sent_at.get().map_or(Duration::ZERO, Instant::elapsed);
        self.allowed.saturating_sub(spent)
    }

    pub(crate) fn left_ms(&self) -> u64 {
        u64::try_from(self.left().as_millis()).unwrap_or(u64::MAX)
    }
}
