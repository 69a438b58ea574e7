//! Reports the state and the output of a job.

use std::io;

use plexus_proto::{ErrorCode, Timestamp};
use plexus_tools::CallError;

use super::jobs::{Exit, Job, Part, Spool, StopReason};
use super::report::{JobState, LeftOut, Listed, Page, Shown};
use crate::tools::output::{Decoded, Source, Stream, rest_of_character, whole_characters};

impl Source for Job {
    fn id(&self) -> (&'static str, &str) {
        ("job", &self.id)
    }

    fn size(&self, stream: Stream) -> u64 {
        self.spool(stream).size()
    }

    async fn part(&self, stream: Stream, from: u64, limit: usize) -> Option<(u64, Vec<u8>)> {
        part(self.spool(stream), from, limit).await.ok().map(|part| (part.offset, part.bytes))
    }

    async fn ended(&self) {
        Self::ended(self).await;
    }
}

/// The current state of a job.
pub(super) fn state(job: &Job, now: Timestamp) -> JobState {
    let end = job.end();
    let duration = job.duration(now);
    JobState {
        job: job.id.clone(),
        running: end.is_none(),
        exit_code: end.as_ref().and_then(|end| end.exit.code()),
        signal: end.as_ref().and_then(|end| end.exit.signal()),
        timed_out: end.as_ref().is_some_and(|end| end.why == Some(StopReason::Timeout)),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        left_running: end.as_ref().is_some_and(|end| end.left_running),
        note: end.and_then(|end| match (end.exit, end.why) {
            (_, Some(StopReason::Output)) => {
                Some("it was killed because it wrote more than this machine can store".to_owned())
            }
            (_, Some(StopReason::Interrupted)) => Some(
                "it was killed because the node stopped, and with it the call that waited for it"
                    .to_owned(),
            ),
            (_, Some(StopReason::Cancelled)) => Some("it was killed because its call was cancelled".to_owned()),
            (Exit::Unknown, _) if job.record.pty => {
                Some("its terminal was closed when the node stopped".to_owned())
            }
            (Exit::Unknown, _) => Some(
                "its exit status is unknown: its process group was killed from outside, or the machine stopped"
                    .to_owned(),
            ),
            _ => None,
        }),
    }
}

/// A job in a list.
pub(super) fn listed(job: &Job, now: Timestamp) -> Listed {
    let record = &job.record;
    Listed {
        state: state(job, now),
        command: record.command.clone(),
        cwd: record.cwd.clone(),
        pty: record.pty,
        started_at: record.started_at,
        by: record.by.clone(),
        stdout_bytes: job.spool(Stream::Stdout).size(),
        stderr_bytes: job.spool(Stream::Stderr).size(),
    }
}

/// Reads a part of an output on a blocking thread, because the disk may be slow.
pub(super) async fn part(spool: Spool, offset: u64, limit: usize) -> io::Result<Part> {
    tokio::task::spawn_blocking(move || spool.part(offset, limit)).await.unwrap_or_else(|e| Err(e.into()))
}

/// The beginning and the end of an output, at most `head` and `tail` bytes.
pub(super) async fn shown(job: &Job, stream: Stream, head: usize, tail: usize) -> Result<Shown, CallError> {
    let spool = job.spool(stream);
    let first = part(spool.clone(), 0, head + tail).await.map_err(unreadable)?;
    let size = first.size;
    if size <= first.bytes.len() as u64 {
        let Decoded { text, base64 } = Decoded::of(&first.bytes);
        return Ok(Shown { text, bytes: size, truncated: false, left_out: None, base64 });
    }
    let first = &first.bytes[..whole_characters(&first.bytes[..head.min(first.bytes.len())])];
    let last = part(spool, size - tail as u64, tail).await.map_err(unreadable)?;
    let begun = rest_of_character(&last.bytes);
    let (last, end_from) = (&last.bytes[begun..], last.offset + begun as u64);
    let left_out = LeftOut { offset: first.len() as u64, bytes: end_from - first.len() as u64 };
    let place = match stream {
        Stream::Stdout => String::new(),
        Stream::Stderr => r#", stream "stderr""#.to_owned(),
    };
    let between = format!(
        "{} bytes omitted: action \"read\", job {:?}{place}, offset {} shows them",
        left_out.bytes, job.id, left_out.offset
    );
    let Decoded { text, base64 } = Decoded::of_ends(first, &between, last);
    Ok(Shown { text, bytes: size, truncated: true, left_out: Some(left_out), base64 })
}

/// A page of `read`.
pub(super) async fn page(job: &Job, stream: Stream, offset: i64, limit: usize) -> Result<Page, CallError> {
    // Read the state first: output read after the end is complete.
    let ended = job.end().is_some();
    let spool = job.spool(stream);
    let offset = match u64::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => spool.size().saturating_sub(offset.unsigned_abs()),
    };
    let part = part(spool, offset, limit).await.map_err(unreadable)?;
    let at_end = part.offset + part.bytes.len() as u64 >= part.size;
    // The rest of a split character starts the next page, if there is one.
    let whole = if at_end && ended { part.bytes.len() } else { whole_characters(&part.bytes) };
    let Decoded { text, base64 } = Decoded::of(&part.bytes[..whole]);
    let next_offset = part.offset + whole as u64;
    Ok(Page {
        stream,
        offset: part.offset,
        next_offset,
        bytes: part.size,
        eof: ended && next_offset >= part.size,
        skipped: Some(part.skipped).filter(|skipped| *skipped > 0),
        text,
        base64,
    })
}

pub(super) fn unreadable(error: io::Error) -> CallError {
    CallError::new(ErrorCode::ToolFailed, format!("the output cannot be read: {error}"))
        .hint("Check the node's disk and its log.")
}
