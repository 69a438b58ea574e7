//! A stream of server-sent events, read one by one.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq)]
pub enum SseEvent {
    /// A message with its id.
    Message { id: Option<String>, json: Value },
    /// An id without data, for resuming.
    Priming { id: String },
    /// A comment, with the text after the colon.
    Comment(String),
}

pub struct SseStream {
    response: reqwest::Response,
    buffer: String,
}

impl SseStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: String::new() }
    }

    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next event of any kind; none when the stream has ended.
    pub async fn next(&mut self) -> Option<SseEvent> {
        tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some(end) = self.buffer.find("\n\n") {
                    let event = self.buffer[..end].to_owned();
                    self.buffer.drain(..end + 2);
                    return Some(parse(&event));
                }
                let chunk = self.response.chunk().await.ok().flatten()?;
                self.buffer.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
            }
        })
        .await
        .expect("an event or the end of the stream in time")
    }

    /// The next message; comments and ids without data are passed over.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            if let SseEvent::Message { json, .. } = self.next().await? {
                return Some(json);
            }
        }
    }
}

fn parse(event: &str) -> SseEvent {
    let (mut id, mut data) = (None, None);
    for line in event.lines() {
        match line.split_once(':') {
            Some(("", comment)) => return SseEvent::Comment(comment.to_owned()),
            Some(("id", value)) => id = Some(value.trim().to_owned()),
            Some(("data", value)) => data = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    match (id, data.filter(|data| !data.is_empty())) {
        (id, Some(data)) => SseEvent::Message { id, json: serde_json::from_str(&data).expect("JSON data") },
        (Some(id), None) => SseEvent::Priming { id },
        (None, None) => panic!("an event without id and data: {event:?}"),
    }
}
