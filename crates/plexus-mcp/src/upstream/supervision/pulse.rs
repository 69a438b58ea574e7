//! Signs of life of one server: the calls that run there, and when it was last heard.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use plexus_kit::metrics::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Touched by every call, so without locks.
#[derive(Debug)]
pub(super) struct Pulse {
    epoch: Instant,
    in_flight: AtomicUsize,
    gauge: Gauge,
    /// Milliseconds since `epoch`.
    heard: AtomicU64,
    called: AtomicU64,
    /// A call ran out of time and nothing at all was heard since it began.
    suspect: AtomicBool,
    quiet: Notify,
}

impl Pulse {
    pub(super) fn new(gauge: Gauge) -> Self {
        Self {
            epoch: Instant::now(),
            in_flight: AtomicUsize::new(0),
            gauge,
            heard: AtomicU64::new(0),
            called: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            quiet: Notify::new(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, millis: &AtomicU64) -> Instant {
        self.epoch + Duration::from_millis(millis.load(Ordering::Relaxed))
    }

    /// The server has said something.
    pub(super) fn hear(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
        self.suspect.store(false, Ordering::Relaxed);
    }

    pub(super) fn last_heard(&self) -> Instant {
        self.at(&self.heard)
    }

    /// When a call last began or ended.
    pub(super) fn last_call(&self) -> Instant {
        self.at(&self.called)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// A call begins, which may take this long.
    pub(super) fn begin(&self, timeout: Duration) -> Beat<'_> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.gauge.inc();
        let began = self.now();
        self.called.store(began, Ordering::Relaxed);
        Beat { pulse: self, began, timeout }
    }

    /// Returns when no call runs; for the one task that keeps the server.
    pub(super) async fn quiet(&self) {
        while self.in_flight() > 0 {
            self.quiet.notified().await;
        }
    }
}

/// A call that runs, until it is dropped.
#[derive(Debug)]
pub(super) struct Beat<'p> {
    pulse: &'p Pulse,
    began: u64,
    timeout: Duration,
}

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        let pulse = self.pulse;
        let now = pulse.now();
        pulse.called.store(now, Ordering::Relaxed);
        let silent = pulse.heard.load(Ordering::Relaxed) < self.began;
        if silent && u128::from(now - self.began) + 1 >= self.timeout.as_millis() {
            pulse.suspect.store(true, Ordering::Relaxed);
        }
        pulse.gauge.dec();
        if pulse.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            pulse.quiet.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_call_that_ran_out_of_time_in_silence_makes_a_server_suspect() {
        let timeout = Duration::from_secs(5);
        let pulse = Pulse::new(Gauge::default());
        tokio::time::advance(Duration::from_secs(1)).await;
        let cancelled = pulse.begin(timeout);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(cancelled);
        assert!(!pulse.is_suspect(), "it was given up early");
        let busy = pulse.begin(timeout);
        tokio::time::advance(Duration::from_secs(4)).await;
        pulse.hear();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(busy);
        assert!(!pulse.is_suspect(), "the server was heard in the meantime");
        let silent = pulse.begin(timeout);
        tokio::time::advance(timeout).await;
        drop(silent);
        assert!(pulse.is_suspect());
        pulse.hear();
        assert!(!pulse.is_suspect());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_quiet_when_the_last_call_has_ended() {
        let pulse = Pulse::new(Gauge::default());
        pulse.quiet().await;
        let (one, two) = (pulse.begin(Duration::MAX), pulse.begin(Duration::MAX));
        assert_eq!(pulse.in_flight(), 2);
        let waited = tokio::time::timeout(Duration::from_secs(1), pulse.quiet()).await;
        assert!(waited.is_err());
        drop(one);
        drop(two);
        pulse.quiet().await;
    }
}
