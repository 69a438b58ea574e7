//! The retry schedule of a server, and when to give up.
//!
//! The first attempt after a good run follows immediately; then the pauses double up to a limit, each
//! shortened by random jitter. Only a sustained run resets the schedule: a server that starts and dies after
//! a second is in the same crash loop as one that never starts.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_kit::backoff::doubled;
use tokio::time::Instant;

use crate::supervision::timing::Timing;

#[derive(Debug)]
pub(super) struct Backoff {
    timing: Timing,
    /// Whether the server may be given up. Every failed start of a process costs resources; a failed
    /// connection to a remote server costs almost nothing, and the server may come back unnoticed.
    can_give_up: bool,
    failures: VecDeque<Instant>,
    pauses: u32,
    given_up: bool,
}

/// The step after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// Retry after this pause.
    Retry(Duration),
    /// A crash loop: pause for a long time.
    GiveUp(Duration),
}

impl Backoff {
    pub(in crate::supervision) fn new(timing: Timing, can_give_up: bool) -> Self {
        Self { timing, can_give_up, failures: VecDeque::new(), pauses: 0, given_up: false }
    }

    /// Records a failure after the server was up for `uptime`.
    pub(in crate::supervision) fn failed(&mut self, now: Instant, uptime: Duration) -> NextAttempt {
        let timing = &self.timing;
        if uptime >= timing.sustained {
            self.failures.clear();
            self.pauses = 0;
            self.given_up = false;
        }
        self.failures.retain(|at| now.duration_since(*at) < timing.crash_window);
        // No more failures than these matter.
        if self.failures.len() >= timing.crashes {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        if self.can_give_up && (self.given_up || self.failures.len() >= timing.crashes) {
            self.given_up = true;
            return NextAttempt::GiveUp(timing.given_up);
        }
        let pause = match self.pauses {
            0 => Duration::ZERO,
            n => doubled(timing.first_pause, n - 1, timing.longest_pause),
        };
        self.pauses += 1;
        NextAttempt::Retry(timing.jitter.shorten(pause))
    }
}

#[cfg(test)]
mod tests;
