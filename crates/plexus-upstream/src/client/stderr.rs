//! The newest of what a server's process wrote to its standard error.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_kit::foreign_text::clean;
pub(super) use plexus_kit::foreign_text::{Withheld, cut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::detail;

/// Lines that are kept, the bytes of all of them, and of one; what is older goes, what is longer is cut.
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 << 10;
const MAX_LINE: usize = 2 << 10;
/// Of foreign text inside of a message of ours.
const SHOWN: usize = 300;
const BLOCK: usize = 8 << 10;

/// Filled by a task that always reads, so that a server never waits because of what it complains about.
///
/// What looks like a credential is taken out when lines are shown, and not when they are written: a flood of them costs
/// little, and a key that goes over several lines is found. What the process was given is [`Withheld`] from the start,
/// whatever it looks like.
#[derive(Default)]
pub struct StderrRing(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that there ever were.
    pushed: usize,
}

/// A place between two lines: what one process wrote begins there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark(usize);

impl StderrRing {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Oldest first, without what looks like a credential.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines_since(Mark::default())
    }

    /// The same of what was written since.
    pub(crate) fn lines_since(&self, Mark(mark): Mark) -> Vec<String> {
        let text = {
            let ring = self.ring();
            let older = mark.saturating_sub(ring.pushed - ring.lines.len());
            ring.lines.iter().skip(older).map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        let text = plexus_tools::redacted(&text).unwrap_or(text);
        text.lines().map(str::to_owned).collect()
    }

    /// Where the next line will be.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.ring().pushed)
    }

    /// What happened, and the last thing that the process had to say about it.
    pub(super) fn explain(&self, what: String, since: Mark) -> String {
        match self.lines_since(since).iter().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => detail::with_last_line(&what, &cut(line, SHOWN)),
            None => what,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8], withheld: &Withheld) {
        let mut line = withheld.out_of(clean(line));
        line.truncate(line.floor_char_boundary(MAX_LINE));
        let mut ring = self.ring();
        ring.pushed += 1;
        ring.bytes += line.len();
        ring.lines.push_back(line);
        while ring.lines.len() > MAX_LINES || ring.bytes > MAX_BYTES {
            let gone = ring.lines.pop_front().map_or(0, |line| line.len());
            ring.bytes -= gone;
        }
    }

    /// Reads until there is nothing more to come.
    pub(super) async fn fill(&self, mut from: impl AsyncRead + Unpin, withheld: &Withheld) {
        // What begins within a line that is cut is seen whole.
        let most = MAX_LINE + withheld.longest();
        let mut block = vec![0; BLOCK];
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

/// Foreign text as it may stand in a message of ours: one short line without credentials.
pub(super) fn shown(text: &[u8]) -> String {
    shown_without(text, &Withheld::default())
}

/// The same, also without what its writer was told in confidence.
pub(super) fn shown_without(text: &[u8], withheld: &Withheld) -> String {
    let text = withheld.out_of(clean(&text[..text.len().min(readable(withheld))]));
    cut(&plexus_tools::redacted(&text).unwrap_or(text), SHOWN)
}

/// Bytes of a text that are looked at to show its beginning: what begins within that is seen whole.
pub(super) fn readable(withheld: &Withheld) -> usize {
    4 * SHOWN + withheld.longest()
}

#[cfg(test)]
mod tests;
