//! What a person sees while a command takes its time.
//!
//! Drawn on standard error and only on a terminal: a pipe, a log and a program get nothing. It goes
//! when the command ends early, and leaves one line when the work is done.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::text::one_line;

/// Work that is over sooner than this shows nothing.
const TICK: Duration = Duration::from_millis(150);

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Work of unknown length.
    pub(super) fn start(doing: &str, quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message(one_line(doing));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    /// What is being done now.
    pub(crate) fn tell(&self, doing: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(one_line(doing));
        }
    }

    /// It is done; the line stays where the bar was.
    pub(crate) fn finish(mut self, done: &str) {
        if let Some(bar) = self.0.take() {
            let took = super::time::lasting(i64::try_from(bar.elapsed().as_millis()).unwrap_or(i64::MAX));
            bar.finish_and_clear();
            super::remark(&format!("{} in {took}", one_line(done)));
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
