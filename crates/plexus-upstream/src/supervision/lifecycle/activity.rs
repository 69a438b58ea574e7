//! Signs of life of one server: the calls that run there, and when it was last heard.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use plexus_kit::metrics::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Touched by every call, so without locks.
#[derive(Debug)]
pub(in crate::supervision) struct Activity {
    epoch: Instant,
    in_flight: AtomicUsize,
    /// Of these, the calls that have a connection; the others wait for one.
    running: AtomicUsize,
    gauge: Gauge,
    /// Milliseconds since `epoch`.
    heard: AtomicU64,
    called: AtomicU64,
    /// A call ran out of time and nothing at all was heard since it began.
    suspect: AtomicBool,
    quiet: Notify,
}

impl Activity {
    pub(in crate::supervision) fn new(gauge: Gauge) -> Self {
        Self {
            epoch: Instant::now(),
            in_flight: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
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
    pub(in crate::supervision) fn hear(&self) {
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

    pub(in crate::supervision) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Calls that run at the server.
    pub(in crate::supervision) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// A call begins, which may take this long.
    pub(in crate::supervision) fn begin(&self, timeout: Duration) -> Beat<'_> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.gauge.inc();
        let began = self.now();
        self.called.store(began, Ordering::Relaxed);
        Beat { activity: self, began, timeout }
    }

    /// A call takes a connection. It is counted before it looks for one: who takes the connection away and then counts
    /// misses none.
    pub(in crate::supervision) fn run(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Running(self)
    }

    /// Returns when no call runs; for the one task that keeps the server.
    pub(super) async fn quiet(&self) {
        while self.running() > 0 {
            self.quiet.notified().await;
        }
    }
}

/// A call that has a connection, until it is dropped.
#[derive(Debug)]
pub(in crate::supervision) struct Running<'p>(&'p Activity);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.quiet.notify_one();
        }
    }
}

/// A call in flight, until it is dropped.
#[derive(Debug)]
pub(in crate::supervision) struct Beat<'p> {
    activity: &'p Activity,
    began: u64,
    timeout: Duration,
}

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        let activity = self.activity;
        let now = activity.now();
        activity.called.store(now, Ordering::Relaxed);
        if ran_out_in_silence(self.began, now, activity.heard.load(Ordering::Relaxed), self.timeout) {
            activity.suspect.store(true, Ordering::Relaxed);
        }
        activity.gauge.dec();
        activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a call had all the time it may have and the server said nothing at all in it.
fn ran_out_in_silence(began: u64, now: u64, heard: u64, timeout: Duration) -> bool {
    // A timer may be a millisecond early by this measure.
    heard < began && u128::from(now.saturating_sub(began)) + 1 >= timeout.as_millis()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn only_a_call_that_ran_out_of_time_in_silence_makes_a_server_suspect() {
        let timeout = Duration::from_secs(5);
        assert!(!ran_out_in_silence(1_000, 2_000, 900, timeout), "it was given up early");
        assert!(!ran_out_in_silence(1_000, 6_000, 5_000, timeout), "the server was heard in the meantime");
        assert!(ran_out_in_silence(1_000, 6_000, 900, timeout));
    }

    #[test]
    fn a_suspect_is_one_until_it_is_heard() {
        let activity = Activity::new(Gauge::default());
        activity.heard.store(0, Ordering::Relaxed);
        let mut silent = activity.begin(Duration::ZERO);
        silent.began = 1;
        drop(silent);
        assert!(activity.is_suspect());
        activity.hear();
        assert!(!activity.is_suspect());
    }

    #[test]
    fn it_is_quiet_when_the_last_call_that_runs_has_ended() {
        let activity = Activity::new(Gauge::default());
        let _waiting = activity.begin(Duration::MAX);
        assert!(activity.quiet().now_or_never().is_some());
        let (one, two) = (activity.run(), activity.run());
        assert_eq!((activity.in_flight(), activity.running()), (1, 2));
        let mut quiet = Box::pin(activity.quiet());
        drop(one);
        assert!((&mut quiet).now_or_never().is_none());
        drop(two);
        assert!(quiet.now_or_never().is_some());
    }
}
