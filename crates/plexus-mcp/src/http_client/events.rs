//! An incremental parser for server-sent events.
//!
//! The data of an event is a slice of the input if it has one line, which is the common case.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// Longest event id, in bytes. Longer ones are ignored because an id is sent back in a header.
const MAX_ID: usize = 1024;

/// An event that carries data.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// None means `message`.
    pub name: Option<Bytes>,
    pub data: Bytes,
}

impl SseEvent {
    /// Whether it carries an MCP message. Servers also send other events, for example as keep-alives.
    pub fn is_message(&self) -> bool {
        matches!(self.name.as_deref(), None | Some(b"" | b"message"))
    }
}

/// An event exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct EventTooLong;

/// Turns received bytes into events.
#[derive(Debug)]
pub struct SseParser {
    /// The incomplete last line.
    rest: BytesMut,
    /// Bytes of `rest` that contain no line end.
    searched: usize,
    /// The last line ended with a carriage return; a line feed right after it belongs to that line end.
    after_return: bool,
    started: bool,
    event: PartialEvent,
    last_id: Option<String>,
    retry: Option<Duration>,
    /// Size limit of one line and of the data of one event, in bytes.
    limit: usize,
}

#[derive(Debug, Default)]
struct PartialEvent {
    name: Option<Bytes>,
    data: Option<Data>,
    id: Option<String>,
}

#[derive(Debug)]
enum Data {
    Line(Bytes),
    Lines(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Line(data) => data.len(),
            Self::Lines(data) => data.len(),
        }
    }

    fn add(self, line: &Bytes) -> Self {
        let mut lines = match self {
            Self::Line(first) => BytesMut::from(&first[..]),
            Self::Lines(lines) => lines,
        };
        lines.extend_from_slice(b"\n");
        lines.extend_from_slice(line);
        Self::Lines(lines)
    }

    fn finish(self) -> Bytes {
        match self {
            Self::Line(data) => data,
            Self::Lines(data) => data.freeze(),
        }
    }
}

impl SseParser {
    pub fn new(limit: usize) -> Self {
        Self {
            rest: BytesMut::new(),
            searched: 0,
            after_return: false,
            started: false,
            event: PartialEvent::default(),
            last_id: None,
            retry: None,
            limit,
        }
    }

    /// The id to resume after if the connection breaks. None if the server sends no ids.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The delay before a reconnect: the server's `retry` or else `default`, within the bounds.
    pub fn pause(&self, default: Duration, bounds: RangeInclusive<Duration>) -> Duration {
        self.retry.unwrap_or(default).clamp(*bounds.start(), *bounds.end())
    }

    /// Continues with another response: drops the incomplete event, keeps the last id.
    pub fn restart(&mut self) {
        self.rest.clear();
        self.searched = 0;
        self.after_return = false;
        self.started = false;
        self.event = PartialEvent::default();
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next complete event with data.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                let PartialEvent { name, data, id } = std::mem::take(&mut self.event);
                if id.is_some() {
                    self.last_id = id;
                }
                if let Some(data) = data.map(Data::finish).filter(|data| !data.is_empty()) {
                    return Ok(Some(SseEvent { name, data }));
                }
            } else {
                self.field(&line)?;
            }
        }
        Ok(None)
    }

    /// The next line without its line end.
    fn line(&mut self) -> Result<Option<Bytes>, EventTooLong> {
        if self.after_return && !self.rest.is_empty() {
            self.after_return = false;
            if self.rest[0] == b'\n' {
                let _ = self.rest.split_to(1);
            }
        }
        let line_end = self.rest[self.searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(end) = line_end.map(|at| self.searched + at) else {
            self.searched = self.rest.len();
            return if self.searched > self.limit { Err(EventTooLong) } else { Ok(None) };
        };
        self.after_return = self.rest[end] == b'\r';
        self.searched = 0;
        let mut line = self.rest.split_to(end + 1).freeze();
        line.truncate(end);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xef\xbb\xbf") {
            line = line.slice(3..);
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: &Bytes) -> Result<(), EventTooLong> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            // A comment, sent as a keep-alive.
            Some(0) => return Ok(()),
            Some(at) => {
                let space = usize::from(line.get(at + 1) == Some(&b' '));
                (&line[..at], line.slice(at + 1 + space..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"event" => self.event.name = Some(value),
            b"data" => {
                let before = self.event.data.take();
                if before.as_ref().map_or(0, Data::len) + value.len() > self.limit {
                    return Err(EventTooLong);
                }
                self.event.data = Some(match before {
                    None => Data::Line(value),
                    Some(before) => before.add(&value),
                });
            }
            b"id" => {
                // Only an id that can be sent back in a header.
                let text = std::str::from_utf8(&value).ok();
                let sendable = |id: &&str| id.len() <= MAX_ID && id.bytes().all(|b| matches!(b, b' '..=b'~'));
                self.event.id = text.filter(sendable).map(str::to_owned);
            }
            b"retry" => {
                let text = std::str::from_utf8(&value).ok();
                let millis = text.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                self.retry =
                    millis.and_then(|text| text.parse().ok()).map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
