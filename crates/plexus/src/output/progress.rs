//! A spinner for work of unknown length.
//!
//! It is drawn on standard error, and only on a terminal. It disappears if the command ends early, and leaves one
//! line when the work is done.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::text::one_line;

/// Redraw interval. Shorter work shows nothing.
const TICK: Duration = Duration::from_millis(150);

/// A running spinner. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn start(message: &str, quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message(one_line(message));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    /// Changes the message.
    pub(crate) fn tell(&self, message: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(one_line(message));
        }
    }

    /// Replaces the spinner by a line with the elapsed time.
    pub(crate) fn finish(mut self, done: &str) {
        if let Some(bar) = self.0.take() {
            let took = super::time::duration(i64::try_from(bar.elapsed().as_millis()).unwrap_or(i64::MAX));
            bar.finish_and_clear();
            super::note(&format!("{done} in {took}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
