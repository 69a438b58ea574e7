//! Streams the output of a remote command as events, at the same limited rate as the terminal.

use std::time::Duration;

use plexus_tools::ToolContext;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::tools::output::{Decoded, whole_characters};

/// The maximum number of bytes per event; of longer output, the end is sent.
const CHUNK: usize = 16 << 10;
/// The minimum interval between events.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of output bytes per call.
const MAX_STREAMED: usize = 1 << 20;

pub(super) struct Live<'l> {
    context: &'l ToolContext,
    host: &'l str,
    streams: [Stream; 2],
    left: usize,
    told_at: Instant,
}

#[derive(Default)]
struct Stream {
    name: &'static str,
    /// The offset of the waiting bytes.
    offset: u64,
    waiting: Vec<u8>,
    /// Bytes skipped since the last event.
    skipped: u64,
}

impl<'l> Live<'l> {
    pub(super) fn new(context: &'l ToolContext, host: &'l str) -> Self {
        let stream = |name| Stream { name, ..Stream::default() };
        Self {
            context,
            host,
            streams: [stream("stdout"), stream("stderr")],
            left: MAX_STREAMED,
            told_at: Instant::now(),
        }
    }

    pub(super) fn stdout(&mut self, bytes: &[u8]) {
        self.streams[0].push(bytes);
    }

    pub(super) fn stderr(&mut self, bytes: &[u8]) {
        self.streams[1].push(bytes);
    }

    /// Completes when there is output to send and the interval has passed.
    pub(super) async fn due(&self) {
        if self.left == 0 || self.streams.iter().all(|stream| stream.waiting.is_empty()) {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.told_at + EVENT_INTERVAL).await;
    }

    pub(super) fn send(&mut self) {
        self.told_at = Instant::now();
        for stream in &mut self.streams {
            let whole = match whole_characters(&stream.waiting) {
                0 => stream.waiting.len(),
                whole => whole,
            }
            .min(self.left);
            if whole == 0 {
                continue;
            }
            self.left -= whole;
            let bytes: Vec<u8> = stream.waiting.drain(..whole).collect();
            let mut event = json!({ "host": self.host, "stream": stream.name, "offset": stream.offset });
            if stream.skipped > 0 {
                event["skipped"] = json!(std::mem::take(&mut stream.skipped));
            }
            stream.offset += whole as u64;
            let decoded = Decoded::of(&bytes);
            match decoded.base64 {
                Some(bytes) => event["base64"] = bytes.into(),
                None => event["text"] = decoded.text.into(),
            }
            self.context.emit("terminal_output", object(event));
        }
    }
}

impl Stream {
    fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        let over = self.waiting.len().saturating_sub(CHUNK);
        self.waiting.drain(..over);
        self.offset += over as u64;
        self.skipped += over as u64;
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
