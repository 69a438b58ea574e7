//! Activity of one server: its calls, and when it was last heard from.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use plexus_kit::metrics::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Updated by every call, therefore without locks.
#[derive(Debug)]
pub(in crate::supervision) struct Activity {
    epoch: Instant,
    in_flight: AtomicUsize,
    /// The calls in flight that have a connection; the others wait for one.
    running: AtomicUsize,
    gauge: Gauge,
    /// Milliseconds since `epoch`.
    last_message: AtomicU64,
    called: AtomicU64,
    /// A call timed out and the server sent nothing since it began.
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
            last_message: AtomicU64::new(0),
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

    /// Records a sign of life of the server.
    pub(in crate::supervision) fn record_message(&self) {
        self.last_message.store(self.now(), Ordering::Relaxed);
        self.suspect.store(false, Ordering::Relaxed);
    }

    pub(super) fn last_message_at(&self) -> Instant {
        self.at(&self.last_message)
    }

    /// Since when nothing was called or heard; `None` while a call is in flight.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.in_flight() == 0).then(|| self.at(&self.called).max(self.last_message_at()))
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

    /// Registers a call with this timeout.
    pub(in crate::supervision) fn begin(&self, timeout: Duration) -> CallInFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.gauge.inc();
        let began = self.now();
        self.called.store(began, Ordering::Relaxed);
        CallInFlight { activity: self, began, timeout }
    }

    /// Registers that a call uses a connection. The call is counted before it takes the connection, so that a task that
    /// removes the connection and then reads the count sees the call.
    pub(in crate::supervision) fn run(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Running(self)
    }

    /// Waits until no call runs; used only by the task that supervises the server.
    pub(super) async fn wait_until_quiet(&self) {
        while self.running() > 0 {
            self.quiet.notified().await;
        }
    }
}

/// A call that uses a connection, until dropped.
#[derive(Debug)]
pub(in crate::supervision) struct Running<'p>(&'p Activity);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.quiet.notify_one();
        }
    }
}

/// A call in flight, until dropped.
#[derive(Debug)]
pub(in crate::supervision) struct CallInFlight<'p> {
    activity: &'p Activity,
    began: u64,
    timeout: Duration,
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        let activity = self.activity;
        let now = activity.now();
        activity.called.store(now, Ordering::Relaxed);
        if timed_out_in_silence(self.began, now, activity.last_message.load(Ordering::Relaxed), self.timeout)
        {
            activity.suspect.store(true, Ordering::Relaxed);
        }
        activity.gauge.dec();
        activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a call used its full timeout and the server sent nothing in that time.
fn timed_out_in_silence(began: u64, now: u64, last_message: u64, timeout: Duration) -> bool {
    // A timer may fire a millisecond early by this measure.
    last_message < began && u128::from(now.saturating_sub(began)) + 1 >= timeout.as_millis()
}

#[cfg(test)]
mod tests;
