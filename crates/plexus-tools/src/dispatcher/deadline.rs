//! A deadline that is paused while the caller answers a question.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Counts the time of one call, without the time in which a question to its caller is open.
#[derive(Debug)]
pub(crate) struct Deadline(watch::Sender<usize>);

impl Default for Deadline {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Deadline {
    /// Pauses the deadline until the guard is dropped.
    pub(crate) fn pause(&self) -> Pause<'_> {
        self.0.send_modify(|asking| *asking += 1);
        Pause(self)
    }

    /// Completes when `limit` has been counted.
    pub(super) async fn passed(&self, limit: Duration) {
        let mut asking = self.0.subscribe();
        let mut time_left = limit;
        // `self` holds the sender, so neither wait fails.
        while asking.wait_for(|asking| *asking == 0).await.is_ok() {
            let began = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(time_left) => return,
                _ = asking.wait_for(|asking| *asking > 0) => time_left = time_left.saturating_sub(began.elapsed()),
            }
        }
    }
}

/// An open question; the deadline is paused until this is dropped.
#[derive(Debug)]
pub(crate) struct Pause<'d>(&'d Deadline);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|asking| *asking -= 1);
    }
}

#[cfg(test)]
mod tests;
