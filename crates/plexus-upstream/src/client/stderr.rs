//! The latest lines of a server process's standard error.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_kit::foreign_text::clean;
pub(super) use plexus_kit::foreign_text::{Withheld, cut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::detail;

/// Limits: number of lines, bytes of all lines, bytes of one line. Older lines are dropped, longer ones
/// truncated.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 << 10;
const MAX_LINE: usize = 2 << 10;
/// Limit of third-party text within an error message.
const MAX_SHOWN: usize = 300;
const BLOCK_SIZE: usize = 8 << 10;

/// Filled by a task that always reads, so that a server never blocks on its error output.
///
/// Text that looks like a credential is redacted when lines are shown, not when they are written: this makes
/// floods cheap, and detects keys that span several lines. Secrets that the process was given are
/// [`Withheld`] from the start, whatever they look like.
#[derive(Default)]
pub struct StderrRing(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    /// Number of lines ever written.
    pushed: usize,
}

/// A position between two lines, at which the output of one process begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark(usize);

impl StderrRing {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines, oldest first, with credentials redacted.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines_since(Mark::default())
    }

    /// The lines written since a mark.
    pub(crate) fn lines_since(&self, Mark(mark): Mark) -> Vec<String> {
        let text = {
            let ring = self.ring();
            let older = mark.saturating_sub(ring.pushed - ring.lines.len());
            ring.lines.iter().skip(older).map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        let text = plexus_tools::redacted(&text).unwrap_or(text);
        text.lines().map(str::to_owned).collect()
    }

    /// The position of the next line.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.ring().pushed)
    }

    /// Appends the last line to a description of what happened.
    pub(super) fn explain(&self, message: String, since: Mark) -> String {
        match self.lines_since(since).iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => detail::with_last_line(&message, &cut(line, MAX_SHOWN)),
            None => message,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8], withheld: &Withheld) {
        let mut line = withheld.redact(clean(line));
        line.truncate(line.floor_char_boundary(MAX_LINE));
        let mut ring = self.ring();
        ring.pushed += 1;
        ring.bytes += line.len();
        ring.lines.push_back(line);
        while ring.lines.len() > MAX_LINES || ring.bytes > MAX_BYTES {
            let removed = ring.lines.pop_front().map_or(0, |line| line.len());
            ring.bytes -= removed;
        }
    }

    /// Reads until the end of the stream.
    pub(super) async fn fill(&self, mut from: impl AsyncRead + Unpin, withheld: &Withheld) {
        // Reads beyond the limit, so that a secret that begins before it is recognized as a whole.
        let most = MAX_LINE + withheld.longest();
        let mut block = vec![0; BLOCK_SIZE];
        let mut line: Vec<u8> = Vec::new();
        while let Ok(read @ 1..) = from.read(&mut block).await {
            for part in block[..read].split_inclusive(|byte| *byte == b'\n') {
                let ends = part.ends_with(b"\n");
                let text = part.strip_suffix(b"\n").unwrap_or(part);
                line.extend_from_slice(&text[..text.len().min(most - line.len())]);
                if ends {
                    self.push(&line, withheld);
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            self.push(&line, withheld);
        }
    }
}

impl fmt::Debug for StderrRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrRing").field("lines", &self.ring().lines.len()).finish()
    }
}

/// Third-party text for use in an error message: one short line with credentials redacted.
pub(super) fn shown(text: &[u8]) -> String {
    shown_without(text, &Withheld::default())
}

/// Like [`shown`], and also without the secrets that its writer was given.
pub(super) fn shown_without(text: &[u8], withheld: &Withheld) -> String {
    let text = withheld.redact(clean(&text[..text.len().min(readable(withheld))]));
    cut(&plexus_tools::redacted(&text).unwrap_or(text), MAX_SHOWN)
}

/// Bytes of a text that are examined to show its beginning: a secret that begins there is recognized as a
/// whole.
pub(super) fn readable(withheld: &Withheld) -> usize {
    4 * MAX_SHOWN + withheld.longest()
}

#[cfg(test)]
mod tests;
