//! Reader of server-sent events.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of consecutive keep-alives that mean quiet: the first may have been in flight already.
const QUIET: usize = 3;

#[derive(Debug, Clone, PartialEq)]
pub enum SseEvent {
    /// A message with its id.
    Message { id: Option<String>, json: Value },
    /// An id without data, for resuming.
    Priming { id: String },
    /// A comment, with the text after the colon.
    Comment(String),
}

#[derive(Debug)]
pub struct SseStream {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

impl SseStream {
    pub fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: Vec::new() }
    }

    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next event of any kind; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<SseEvent> {
        self.next_within(TIMEOUT).await
    }

    /// The same with another time limit.
    pub async fn next_within(&mut self, time: Duration) -> Option<SseEvent> {
        tokio::time::timeout(time, async {
            loop {
                if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                    let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                    return Some(parse(std::str::from_utf8(&event).expect("UTF-8")));
                }
                let chunk = self.response.chunk().await.ok().flatten()?;
                self.buffer.extend_from_slice(&chunk);
            }
        })
        .await
        .expect("an event or the end of the stream in time")
    }

    /// The messages until several consecutive keep-alives: everything that is pending at the hub.
    pub async fn until_quiet(&mut self) -> Vec<Value> {
        let (mut comments, mut messages) = (0, Vec::new());
        while comments < QUIET {
            match self.next().await.expect("an open stream") {
                SseEvent::Comment(_) => comments += 1,
                SseEvent::Message { json, .. } => messages.push(json),
                SseEvent::Priming { .. } => {}
            }
        }
        messages
    }

    /// The messages up to the end of the stream.
    pub async fn to_end(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(json) = self.message().await {
            messages.push(json);
        }
        messages
    }

    /// The next message; skips comments and ids without data.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            if let SseEvent::Message { json, .. } = self.next().await? {
                return Some(json);
            }
        }
    }
}

fn parse(event: &str) -> SseEvent {
    let (mut id, mut data) = (None, None::<String>);
    for line in event.lines() {
        match line.split_once(':') {
            Some(("", comment)) => return SseEvent::Comment(comment.to_owned()),
            Some(("id", value)) => id = Some(value.trim().to_owned()),
            // Several data lines are one text with line breaks.
            Some(("data", value)) => {
                data = Some(data.map_or_else(String::new, |before| before + "\n") + value.trim());
            }
            _ => {}
        }
    }
    match (id, data.filter(|data| !data.is_empty())) {
        (id, Some(data)) => SseEvent::Message { id, json: serde_json::from_str(&data).expect("JSON data") },
        (Some(id), None) => SseEvent::Priming { id },
        (None, None) => panic!("an event without id and data: {event:?}"),
    }
}
