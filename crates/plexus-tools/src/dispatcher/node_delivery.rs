//! The delivery of a call to its node, and its deadline, which starts when the call is sent.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How a call is delivered to its node.
#[derive(Debug)]
pub(crate) struct NodeDelivery {
    /// The node holds the result until the hub has acknowledged it.
    pub(crate) keep: bool,
    pub(crate) key: Option<String>,
    /// The call may wait for an offline node: its deadline starts only when it is sent.
    pub(crate) waits: bool,
    allowed: Duration,
    sent_at: OnceLock<Instant>,
    sent: CancellationToken,
}

impl NodeDelivery {
    pub(super) fn new(keep: bool, waits: bool, key: Option<String>, allowed: Duration) -> Self {
        let delivery =
            Self { keep, key, waits, allowed, sent_at: OnceLock::new(), sent: CancellationToken::new() };
        if !waits {
            delivery.sent();
        }
        delivery
    }

    /// Starts the deadline, unless it has already started.
    pub(crate) fn sent(&self) {
        self.sent_at.get_or_init(Instant::now);
        self.sent.cancel();
    }

    /// Completes when the call has been sent.
    pub(super) async fn until_sent(&self) {
        self.sent.cancelled().await;
    }

    /// The time left until the deadline.
    pub(crate) fn time_left(&self) -> Duration {
        let elapsed = self.sent_at.get().map_or(Duration::ZERO, Instant::elapsed);
        self.allowed.saturating_sub(elapsed)
    }

    pub(crate) fn time_left_ms(&self) -> u64 {
        u64::try_from(self.time_left().as_millis()).unwrap_or(u64::MAX)
    }
}
