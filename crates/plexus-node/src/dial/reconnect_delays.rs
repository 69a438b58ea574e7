//! Delays before the hub is dialled again.
//!
//! Delays are random, so that the nodes of a restarted hub do not all return at once. They double with every failed
//! attempt up to a limit, and start again only after a link that has lasted.

use std::time::Duration;

pub use plexus_kit::backoff::Jitter;
use plexus_kit::backoff::doubled;

/// Maximum delay after the first loss.
const INITIAL_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A link of at least this duration resets the delays.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Delays after a refusal are long, because a user has to act first.
const REFUSED_DELAY: Duration = Duration::from_secs(10);
const MAX_REFUSED_DELAY: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct ReconnectDelays {
    jitter: Jitter,
    losses: u32,
    refusals: u32,
}

impl ReconnectDelays {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self { jitter, losses: 0, refusals: 0 }
    }

    /// The delay after a link was lost, or could not be opened.
    pub(super) fn after_loss(&mut self, lasted: Duration) -> Duration {
        self.refusals = 0;
        if lasted >= STABLE_AFTER {
            self.losses = 0;
        }
        self.losses += 1;
        match self.losses {
            // From zero: nodes that were lost together spread over the whole delay.
            1 => INITIAL_DELAY.mul_f64(self.jitter.number()),
            n => self.jitter.shorten(doubled(INITIAL_DELAY, n - 1, MAX_DELAY)),
        }
    }

    /// The delay after a refusal.
    pub(super) fn after_refusal(&mut self) -> Duration {
        self.refusals += 1;
        self.jitter.shorten(doubled(REFUSED_DELAY, self.refusals - 1, MAX_REFUSED_DELAY))
    }
}

#[cfg(test)]
mod tests;
