//! The output of a program that is captured in a fixed amount of memory, during the run and after it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::Stream;
use super::head_and_tail::HeadAndTail;
use super::live::Source;
use super::text::Decoded;

/// The beginning and the end of an output, or all of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Excerpt {
    /// The text; bytes that are not valid UTF-8 are replaced.
    pub(in crate::tools) text: String,
    /// Total size.
    pub(in crate::tools) bytes: u64,
    /// Some of the output, between the beginning and the end, is omitted and was not stored.
    pub(in crate::tools) truncated: bool,
    /// The bytes shown, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) base64: Option<String>,
}

impl Excerpt {
    /// At most `limit` bytes.
    pub(in crate::tools) fn within(retained: &HeadAndTail, limit: usize) -> Self {
        let ends = retained.ends(limit);
        let Decoded { text, base64 } = match &ends.last {
            None => Decoded::of(&ends.first),
            Some(last) => Decoded::of_ends(
                &ends.first,
                &format!("{} bytes omitted and not stored", ends.left_out),
                last,
            ),
        };
        Self { text, bytes: retained.size(), truncated: ends.last.is_some(), base64 }
    }
}

/// Both output streams of a program.
#[derive(Debug)]
pub(in crate::tools) struct Captured {
    /// The field and the id by which subscribers know the program.
    id: (&'static str, String),
    stdout: Mutex<HeadAndTail>,
    stderr: Mutex<HeadAndTail>,
    ended: watch::Sender<bool>,
}

impl Captured {
    /// Retains at most the given numbers of bytes of standard output and standard error.
    pub(in crate::tools) fn new(id: (&'static str, &str), stdout: usize, stderr: usize) -> Self {
        Self {
            id: (id.0, id.1.to_owned()),
            stdout: Mutex::new(HeadAndTail::new(stdout)),
            stderr: Mutex::new(HeadAndTail::new(stderr)),
            ended: watch::Sender::new(false),
        }
    }

    pub(in crate::tools) fn retained(&self, stream: Stream) -> MutexGuard<'_, HeadAndTail> {
        let retained = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that is retained of a stream.
    pub(in crate::tools) fn excerpt(&self, stream: Stream) -> Excerpt {
        Excerpt::within(&self.retained(stream), usize::MAX)
    }

    /// The program has ended, and its output is complete.
    pub(in crate::tools) fn end(&self) {
        self.ended.send_replace(true);
    }
}

impl Source for Captured {
    fn id(&self) -> (&'static str, &str) {
        (self.id.0, &self.id.1)
    }

    fn size(&self, stream: Stream) -> u64 {
        self.retained(stream).size()
    }

    async fn part(&self, stream: Stream, from: u64, limit: usize) -> Option<(u64, Vec<u8>)> {
        Some(self.retained(stream).part(from, limit))
    }

    async fn ended(&self) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

#[cfg(test)]
mod tests;
