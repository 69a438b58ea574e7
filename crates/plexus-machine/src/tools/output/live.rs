//! Streams a program's output as events while it runs.
//!
//! The volume suits a link and human readers: one screenful at a time, ten times per second, and after the first
//! mebibyte only the total size. The complete output remains available where it is stored.

use std::time::Duration;

use plexus_tools::ToolContext;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use super::Stream;
use super::text::{Decoded, base64, whole_characters};

/// The maximum number of bytes per event.
const CHUNK: usize = 16 << 10;
/// The maximum size as JSON text; output with many control characters is shorter as base64.
const MAX_JSON_BYTES: usize = 40 << 10;
/// The minimum interval between events.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of output bytes per call.
const MAX_STREAMED: usize = 1 << 20;
/// After that limit, the interval between reports of the total size.
const SPARSE_INTERVAL: Duration = Duration::from_secs(5);
/// If the reader is further behind than this, the bytes in between are skipped.
const BEHIND: u64 = 4 * CHUNK as u64;

/// The output of a running or ended program.
pub(in crate::tools) trait Source: Sync {
    /// The field and the id by which subscribers know it.
    fn id(&self) -> (&'static str, &str);

    /// The total number of bytes written.
    fn size(&self, stream: Stream) -> u64;

    /// Returns at most `limit` bytes from `from`, or from the first stored byte after it, with their offset.
    fn part(
        &self,
        stream: Stream,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Option<(u64, Vec<u8>)>> + Send;

    /// Waits for the end of the program.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// Follows the output of one program for one call.
pub(in crate::tools) struct Live<'l, S> {
    context: &'l ToolContext,
    source: &'l S,
    streams: Vec<Followed>,
    remaining_bytes: usize,
    sent_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Followed {
    stream: Stream,
    /// The offset up to which output was sent.
    at: u64,
}

impl<'l, S: Source> Live<'l, S> {
    /// Starts at the current end of the output.
    pub(in crate::tools) fn from_now(context: &'l ToolContext, source: &'l S) -> Self {
        Self::new(context, source, |stream| source.size(stream))
    }

    pub(in crate::tools) fn from_start(context: &'l ToolContext, source: &'l S) -> Self {
        Self::new(context, source, |_| 0)
    }

    fn new(context: &'l ToolContext, source: &'l S, at: impl Fn(Stream) -> u64) -> Self {
        let followed = |stream| Followed { stream, at: at(stream) };
        let streams = vec![followed(Stream::Stdout), followed(Stream::Stderr)];
        Self { context, source, streams, remaining_bytes: MAX_STREAMED, sent_at: None }
    }

    /// Sends output events until the program ends.
    pub(in crate::tools) async fn until_end(&mut self) {
        let mut pace = tokio::time::interval(EVENT_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.source.ended() => break,
                _ = pace.tick() => self.next().await,
            }
        }
        for index in 0..self.streams.len() {
            self.send_next(index, true).await;
        }
    }

    /// Sends the end event.
    pub(in crate::tools) fn close(&self, how: Value) {
        self.context.emit("terminal_closed", payload(how));
    }

    /// Sends one event, alternating between the streams.
    async fn next(&mut self) {
        if self.remaining_bytes == 0
            && self.sent_at.is_some_and(|sent_at| sent_at.elapsed() < SPARSE_INTERVAL)
        {
            return;
        }
        if self.send_next(0, false).await {
            self.streams.rotate_left(1);
        } else {
            self.send_next(1, false).await;
        }
    }

    async fn send_next(&mut self, index: usize, last: bool) -> bool {
        let Followed { stream, at } = self.streams[index];
        let size = self.source.size(stream);
        if size <= at {
            return false;
        }
        self.sent_at = Some(Instant::now());
        let limit = CHUNK.min(self.remaining_bytes);
        if limit == 0 {
            self.streams[index].at = size;
            let progress = json!({ "stream": stream, "offset": size, "skipped": size - at });
            return self.emit_output(progress);
        }
        // The rest is sent as one event.
        let behind = if last { limit as u64 } else { BEHIND };
        let from = if size - at > behind { size - limit as u64 } else { at };
        let Some((offset, bytes)) = self.source.part(stream, from, limit).await else { return false };
        let complete = if last { bytes.len() } else { whole_characters(&bytes) };
        let bytes = &bytes[..complete];
        if bytes.is_empty() {
            return false;
        }
        let decoded = Decoded::of(bytes);
        let mut event = json!({ "stream": stream, "offset": offset });
        if offset > at {
            event["skipped"] = json!(offset - at);
        }
        let text = Value::String(decoded.text);
        match decoded.base64 {
            Some(bytes) => event["base64"] = Value::String(bytes),
            None if text.to_string().len() > MAX_JSON_BYTES => event["base64"] = Value::String(base64(bytes)),
            None => event["text"] = text,
        }
        self.streams[index].at = offset + complete as u64;
        self.remaining_bytes -= complete;
        self.emit_output(event)
    }

    fn emit_output(&self, event: Value) -> bool {
        let (field, id) = self.source.id();
        let mut payload = payload(event);
        payload.insert(field.to_owned(), Value::from(id));
        self.context.emit("terminal_output", payload)
    }
}

fn payload(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(payload) => payload,
        _ => Map::new(),
    }
}
