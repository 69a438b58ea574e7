//! When to try again, and when to stop trying.
//!
//! The first attempt after a good run follows at once; then the pauses double, each shortened by a random part, up
//! to a limit. Only a run that lasted makes the next failure a first one again: a server that comes up and dies
//! after a second is in the same loop as one that never comes up.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_kit::backoff::doubled;
use tokio::time::Instant;

use crate::supervision::timing::Timing;

#[derive(Debug)]
pub(super) struct Backoff {
    timing: Timing,
    /// Whether it may be given up. A process that is started in vain costs something each time; a server elsewhere
    /// that is not reached costs next to nothing, and comes back without telling.
    settles: bool,
    failures: VecDeque<Instant>,
    pauses: u32,
    given_up: bool,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Another attempt after this.
    Retry(Duration),
    /// A crash loop: nothing for a long while.
    GiveUp(Duration),
}

impl Backoff {
    pub(in crate::supervision) fn new(timing: Timing, settles: bool) -> Self {
        Self { timing, settles, failures: VecDeque::new(), pauses: 0, given_up: false }
    }

    /// Notes a failure, after the server had been there for `uptime`.
    pub(in crate::supervision) fn failed(&mut self, now: Instant, uptime: Duration) -> Next {
        let timing = &self.timing;
        if uptime >= timing.sustained {
            self.failures.clear();
            self.pauses = 0;
            self.given_up = false;
        }
        self.failures.retain(|at| now.duration_since(*at) < timing.crash_window);
        // No more than these decide.
        if self.failures.len() >= timing.crashes {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        if self.settles && (self.given_up || self.failures.len() >= timing.crashes) {
            self.given_up = true;
            return Next::GiveUp(timing.given_up);
        }
        let pause = match self.pauses {
            0 => Duration::ZERO,
            n => doubled(timing.first_pause, n - 1, timing.longest_pause),
        };
        self.pauses += 1;
        Next::Retry(timing.jitter.shorten(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_kit::backoff::Jitter;

    fn timing() -> Timing {
        Timing { jitter: Jitter::fixed(1.0), ..Timing::default() }
    }

    #[test]
    fn pauses_double_up_to_the_limit_and_start_anew_only_after_a_long_run() {
        let mut backoff = Backoff::new(timing(), false);
        let mut now = Instant::now();
        let mut fail = |uptime: u64| {
            now += Duration::from_secs(100);
            match backoff.failed(now, Duration::from_secs(uptime)) {
                Next::Retry(pause) => pause.as_millis(),
                Next::GiveUp(_) => panic!("it never gives up what costs nothing"),
            }
        };
        let pauses: Vec<_> = (0..10).map(|_| fail(0)).collect();
        assert_eq!(pauses, [0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(fail(59), 60_000, "a run that was too short");
        assert_eq!(fail(60), 0);
        assert_eq!(fail(0), 500);
    }

    #[test]
    fn the_random_part_takes_up_to_half_of_a_pause() {
        for (number, pause) in [(0.0, 250), (0.5, 375), (1.0, 500)] {
            let timing = Timing { jitter: Jitter::fixed(number), ..Timing::default() };
            let mut backoff = Backoff::new(timing, true);
            backoff.failed(Instant::now(), Duration::ZERO);
            let next = backoff.failed(Instant::now(), Duration::ZERO);
            assert_eq!(next, Next::Retry(Duration::from_millis(pause)));
        }
    }

    #[test]
    fn a_crash_loop_is_given_up_until_a_run_lasts() {
        let mut backoff = Backoff::new(timing(), true);
        let now = Instant::now();
        for n in 1..8 {
            assert!(matches!(backoff.failed(now, Duration::ZERO), Next::Retry(_)), "failure {n}");
        }
        let given_up = Next::GiveUp(Duration::from_secs(600));
        assert_eq!(backoff.failed(now, Duration::ZERO), given_up);
        // The slow attempt fails too, long after the others.
        let later = now + Duration::from_secs(700);
        assert_eq!(backoff.failed(later, Duration::ZERO), given_up);
        assert_eq!(backoff.failed(later, Duration::from_secs(60)), Next::Retry(Duration::ZERO));
    }

    #[test]
    fn failures_far_apart_are_no_loop() {
        let mut backoff = Backoff::new(timing(), true);
        let mut now = Instant::now();
        for _ in 0..100 {
            now += Duration::from_secs(100);
            assert!(matches!(backoff.failed(now, Duration::from_secs(30)), Next::Retry(_)));
        }
    }
}
