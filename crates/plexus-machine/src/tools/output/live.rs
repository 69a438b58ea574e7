//! What a program writes, told while it runs.
//!
//! Little and seldom enough for a link and for who reads along: a screenful at a time, ten times a second, and after the
//! first mebibyte only how much there is. Whoever wants all of it reads it where it is kept.

use std::time::Duration;

use plexus_tools::ToolContext;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use super::Stream;
use super::text::{Decoded, base64, whole_characters};

/// Bytes told at once.
const CHUNK: usize = 16 << 10;
/// Longest that they may get as JSON: what is mostly control characters is shorter as bytes.
const AS_JSON: usize = 40 << 10;
/// Between two that are told.
const PACE: Duration = Duration::from_millis(100);
/// Bytes told of one call.
const TOLD: usize = 1 << 20;
/// After that, how often it is told how much there is.
const SPARSE: Duration = Duration::from_secs(5);
/// Further behind than this, what is between is passed over.
const BEHIND: u64 = 4 * CHUNK as u64;

/// A program that runs, or has run, and what is kept of what it writes.
pub(in crate::tools) trait Source: Sync {
    /// By which those who read along know it.
    fn id(&self) -> &str;

    /// What it has written in all.
    fn size(&self, stream: Stream) -> u64;

    /// At most `limit` bytes from `from` on, or from the first byte after it that is kept, and where they begin.
    fn part(
        &self,
        stream: Stream,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Option<(u64, Vec<u8>)>> + Send;

    /// Waits for its end.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// Follows the output of one program for one call.
pub(in crate::tools) struct Live<'l, S> {
    context: &'l ToolContext,
    source: &'l S,
    streams: Vec<Followed>,
    left: usize,
    told_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Followed {
    stream: Stream,
    /// Up to here it was told.
    at: u64,
}

impl<'l, S: Source> Live<'l, S> {
    /// From what there is now on.
    pub(in crate::tools) fn from_now(context: &'l ToolContext, source: &'l S) -> Self {
        Self::new(context, source, |stream| source.size(stream))
    }

    pub(in crate::tools) fn from_start(context: &'l ToolContext, source: &'l S) -> Self {
        Self::new(context, source, |_| 0)
    }

    fn new(context: &'l ToolContext, source: &'l S, at: impl Fn(Stream) -> u64) -> Self {
        let followed = |stream| Followed { stream, at: at(stream) };
        let streams = vec![followed(Stream::Stdout), followed(Stream::Stderr)];
        Self { context, source, streams, left: TOLD, told_at: None }
    }

    /// Tells what it writes until it ends.
    pub(in crate::tools) async fn until_end(&mut self) {
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.source.ended() => break,
                _ = pace.tick() => self.next().await,
            }
        }
        for index in 0..self.streams.len() {
            self.tell(index, true).await;
        }
    }

    /// Tells how it ended.
    pub(in crate::tools) fn close(&self, how: Value) {
        self.context.emit("terminal_closed", payload(how));
    }

    /// Tells something of one stream, of each in its turn.
    async fn next(&mut self) {
        if self.left == 0 && self.told_at.is_some_and(|told_at| told_at.elapsed() < SPARSE) {
            return;
        }
        if self.tell(0, false).await {
            self.streams.rotate_left(1);
        } else {
            self.tell(1, false).await;
        }
    }

    async fn tell(&mut self, index: usize, last: bool) -> bool {
        let Followed { stream, at } = self.streams[index];
        let size = self.source.size(stream);
        if size <= at {
            return false;
        }
        self.told_at = Some(Instant::now());
        let limit = CHUNK.min(self.left);
        if limit == 0 {
            self.streams[index].at = size;
            let (job, skipped) = (self.source.id(), size - at);
            let progress = json!({ "job": job, "stream": stream, "offset": size, "skipped": skipped });
            return self.context.emit("terminal_output", payload(progress));
        }
        // The last of it is told in one go.
        let behind = if last { limit as u64 } else { BEHIND };
        let from = if size - at > behind { size - limit as u64 } else { at };
        let Some((offset, bytes)) = self.source.part(stream, from, limit).await else { return false };
        let whole = if last { bytes.len() } else { whole_characters(&bytes) };
        let bytes = &bytes[..whole];
        if bytes.is_empty() {
            return false;
        }
        let decoded = Decoded::of(bytes);
        let mut told = json!({ "job": self.source.id(), "stream": stream, "offset": offset });
        if offset > at {
            told["skipped"] = json!(offset - at);
        }
        let text = Value::String(decoded.text);
        match decoded.base64 {
            Some(bytes) => told["base64"] = Value::String(bytes),
            None if text.to_string().len() > AS_JSON => told["base64"] = Value::String(base64(bytes)),
            None => told["text"] = text,
        }
        self.streams[index].at = offset + whole as u64;
        self.left -= whole;
        self.context.emit("terminal_output", payload(told))
    }
}

fn payload(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(payload) => payload,
        _ => Map::new(),
    }
}
