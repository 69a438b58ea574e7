//! A progress bar for transfers. It is drawn on standard error, and only on a terminal.

use std::io::{self, BufRead as _, IsTerminal, Write as _};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::text::one_line;

const TICK: Duration = Duration::from_millis(150);

/// A progress bar. Clones share the same bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(0);
        let template = "{bytes} of {total_bytes} [{wide_bar}] {bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    /// Adds to the total.
    pub(crate) fn expect(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc_length(bytes);
        }
    }

    /// Adds to the transferred bytes.
    pub(crate) fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    /// Subtracts bytes that have to be transferred again.
    pub(crate) fn retract(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bar.position().saturating_sub(bytes));
        }
    }

    /// Asks the user a yes/no question. Any other reply is no.
    pub(crate) fn ask(&self, question: &str) -> anyhow::Result<bool> {
        let ask = || {
            let mut answer = String::new();
            let _ = write!(io::stderr().lock(), "{}", one_line(question));
            io::stdin().lock().read_line(&mut answer)?;
            Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
        };
        match &self.0 {
            Some(bar) => bar.suspend(ask),
            None => ask(),
        }
    }

    /// Prints a note above the bar.
    pub(crate) fn note(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| super::note(text)),
            None => super::note(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

pub(crate) fn human_bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}
