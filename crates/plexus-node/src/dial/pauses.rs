//! How long is waited before the hub is dialled again.
//!
//! A hub that restarts has all its nodes at its door at once: each comes a random moment later than the next. Attempts in
//! vain come ever more seldom, up to a limit; only a link that lasted makes the next loss a first one again.

use std::time::Duration;

pub use plexus_kit::backoff::Jitter;
use plexus_kit::backoff::doubled;

/// After the first loss, at most.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// A link of this length was a good one.
const LASTED: Duration = Duration::from_secs(30);
/// Who is refused does not come back soon: something has to be done first, by somebody.
const UNWANTED: Duration = Duration::from_secs(10);
const UNWANTED_LONGEST: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Pauses {
    jitter: Jitter,
    losses: u32,
    refusals: u32,
}

impl Pauses {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self { jitter, losses: 0, refusals: 0 }
    }

    /// After a link that is gone, or did not come about.
    pub(super) fn lost(&mut self, lasted: Duration) -> Duration {
        self.refusals = 0;
        if lasted >= LASTED {
            self.losses = 0;
        }
        self.losses += 1;
        match self.losses {
            // Any moment of it: nodes that were lost together spread over it.
            1 => FIRST.mul_f64(self.jitter.number()),
            n => self.jitter.shorten(doubled(FIRST, n - 1, LONGEST)),
        }
    }

    /// After a refusal.
    pub(super) fn unwanted(&mut self) -> Duration {
        self.refusals += 1;
        self.jitter.shorten(doubled(UNWANTED, self.refusals - 1, UNWANTED_LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Jitter, Pauses};

    #[test]
    fn pauses_grow_up_to_a_limit_and_begin_anew_after_a_link_that_lasted() {
        let mut pauses = Pauses::new(Jitter::fixed(1.0));
        let lost: Vec<_> = (0..9).map(|_| pauses.lost(Duration::ZERO).as_millis()).collect();
        assert_eq!(lost, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(pauses.lost(Duration::from_secs(29)).as_millis(), 30_000, "that was too short");
        assert_eq!(pauses.lost(Duration::from_secs(30)).as_millis(), 500);
    }

    #[test]
    fn nodes_that_were_lost_together_do_not_come_back_together() {
        let first = |number| Pauses::new(Jitter::fixed(number)).lost(Duration::ZERO).as_millis();
        assert_eq!((first(0.0), first(0.5), first(1.0)), (0, 250, 500));
    }

    #[test]
    fn who_is_refused_comes_back_seldom() {
        let mut pauses = Pauses::new(Jitter::fixed(1.0));
        let refused: Vec<_> = (0..7).map(|_| pauses.unwanted().as_secs()).collect();
        assert_eq!(refused, [10, 20, 40, 80, 160, 300, 300]);
    }
}
