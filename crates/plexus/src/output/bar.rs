//! How far a copy is: a bar on standard error, and only on a terminal.

use std::io::{self, BufRead as _, IsTerminal, Write as _};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::text::one_line;

const TICK: Duration = Duration::from_millis(150);

/// Cheap to clone; all clones are one bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(crate) fn new(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(0);
        let form = "{bytes} of {total_bytes} [{wide_bar}] {bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    /// So much more is to come.
    pub(crate) fn expect(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc_length(bytes);
        }
    }

    /// So much more is done.
    pub(crate) fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }

    /// So much has to be done again.
    pub(crate) fn retract(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bar.position().saturating_sub(bytes));
        }
    }

    /// Asks a person something; anything but yes is no.
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

    /// A line above the bar.
    pub(crate) fn remark(&self, words: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| super::remark(&one_line(words))),
            None => super::remark(&one_line(words)),
        }
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

pub(crate) fn bytes_in_words(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}
