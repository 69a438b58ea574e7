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
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
        let pauses: Vec<_> = (0..8).map(|n| doubled(first, n, longest).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(doubled(first, u32::MAX, longest), longest);
        assert_eq!(doubled(Duration::MAX, u32::MAX, longest), longest);
    }

    #[test]
    fn jitter_shortens_a_delay_by_up_to_half() {
        for (number, millis) in [(0.0, 500), (0.5, 750), (1.0, 1_000), (7.0, 1_000), (-1.0, 500)] {
            assert_eq!(Jitter::fixed(number).shorten(Duration::from_secs(1)).as_millis(), millis);
        }
    }
}
