//! How long is waited before something is tried again.
//!
//! Pauses double up to a limit, and each is shortened by a random part, so that those who failed together do not come
//! back together. What counts as a failure, and what makes the next one a first one again, is up to whoever waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A source of numbers from 0 up to 1.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    #[must_use]
    pub fn random() -> Self {
        Self(Arc::new(rand::random::<f64>))
    }

    /// The same number each time.
    #[must_use]
    pub fn fixed(number: f64) -> Self {
        Self(Arc::new(move || number))
    }

    #[must_use]
    pub fn number(&self) -> f64 {
        (self.0)().clamp(0.0, 1.0)
    }

    /// Between a half and the whole of it.
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

/// The pause after `times` others that began with `first`, at most `longest`.
#[must_use]
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_however_often_they_did() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(60));
        let pauses: Vec<_> = (0..8).map(|n| doubled(first, n, longest).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(doubled(first, u32::MAX, longest), longest);
        assert_eq!(doubled(Duration::MAX, u32::MAX, longest), longest);
    }

    #[test]
    fn the_random_part_takes_up_to_half_of_a_pause() {
        for (number, millis) in [(0.0, 500), (0.5, 750), (1.0, 1_000), (7.0, 1_000), (-1.0, 500)] {
            assert_eq!(Jitter::fixed(number).shorten(Duration::from_secs(1)).as_millis(), millis);
        }
    }
}
