//! Reader of server-sent events, independent of the shipped one, so that it can find its faults.

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

/// The fields of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseFields {
    pub name: Option<String>,
    pub id: Option<String>,
    /// Several data lines are one text with line breaks.
    pub data: Option<String>,
    pub comment: Option<String>,
}

/// The messages of a complete body: those of a stream, or the body itself.
pub fn messages_of(body: &str) -> Vec<Value> {
    let parse = |data: &str| serde_json::from_str(data).unwrap_or_else(|e| panic!("not JSON ({e}): {data}"));
    if body.trim_start().starts_with('{') {
        return vec![parse(body)];
    }
    let mut rest = body.as_bytes().to_vec();
    let events = std::iter::from_fn(|| take_event(&mut rest));
    events.filter_map(|event| event.data).filter(|data| !data.is_empty()).map(|data| parse(&data)).collect()
}

/// Removes the first event from the data, if it is complete.
fn take_event(buffer: &mut Vec<u8>) -> Option<SseFields> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")?;
    let event: Vec<u8> = buffer.drain(..end + 2).collect();
    let mut fields = SseFields::default();
    for line in std::str::from_utf8(&event).expect("UTF-8").lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let text = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match name {
            "" => fields.comment = Some(value.to_owned()),
            "event" => fields.name = Some(text),
            "id" => fields.id = Some(text),
            "data" => fields.data = Some(fields.data.map_or(String::new(), |before| before + "\n") + &text),
            _ => {}
        }
    }
    Some(fields)
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
        let SseFields { id, data, comment, .. } = self.fields_within(time).await?;
        Some(match (id, data.filter(|data| !data.is_empty()), comment) {
            (id, Some(data), _) => {
                SseEvent::Message { id, json: serde_json::from_str(&data).expect("JSON data") }
            }
            (Some(id), None, _) => SseEvent::Priming { id },
            (None, None, Some(comment)) => SseEvent::Comment(comment),
            (None, None, None) => panic!("an event without id, data and comment"),
        })
    }

    /// The fields of the next event of any kind.
    pub async fn fields(&mut self) -> Option<SseFields> {
        self.fields_within(TIMEOUT).await
    }

    async fn fields_within(&mut self, time: Duration) -> Option<SseFields> {
        tokio::time::timeout(time, async {
            loop {
                if let Some(event) = take_event(&mut self.buffer) {
                    return Some(event);
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
