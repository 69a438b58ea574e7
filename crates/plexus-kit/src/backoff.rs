//! Delays between retries.
//!
//! Delays double up to a limit, and each is shortened by a random part, so that clients that failed together
//! do not retry together. The caller decides what counts as a failure and when to reset the delay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A source of random numbers from 0 to 1.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    #[must_use]
    pub fn random() -> Self {
        Self(Arc::new(rand::random::<f64>))
    }

    /// Always returns the same number.
    #[must_use]
    pub fn fixed(number: f64) -> Self {
        Self(Arc::new(move || number))
    }

    #[must_use]
    pub fn number(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }

    /// Returns between half and all of `pause`.
    #[must_use]
    pub fn shorten(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + self.number() / 2.0)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

/// The delay after `times` earlier delays, starting with `first` and at most `longest`.
#[must_use]
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(test)]
mod tests;
