//! A stream of server-sent events, taken apart as it comes.
//!
//! An event's data is a slice of what was read where it is one line, which is what servers send.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// An id longer than this is not kept: it would be sent back in a header.
const MAX_ID: usize = 1024;

/// An event that carries data.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// `message` where the server does not say.
    pub name: Option<Bytes>,
    pub data: Bytes,
}

impl Event {
    /// Whether it is one of MCP: servers send others too, to keep a connection open or to people who watch.
    pub fn is_message(&self) -> bool {
        matches!(self.name.as_deref(), None | Some(b"" | b"message"))
    }
}

/// An event that is longer than is taken.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes in, events out.
#[derive(Debug)]
pub struct Events {
    /// What was read and is no whole line yet.
    rest: BytesMut,
    /// How much of it was searched for the end of a line.
    searched: usize,
    /// The last line ended with a carriage return: a line feed right after it is part of that end.
    after_return: bool,
    begun: bool,
    event: Unfinished,
    last_id: Option<String>,
    retry: Option<Duration>,
    /// For the data of one event, and for one line.
    limit: usize,
}

#[derive(Debug, Default)]
struct Unfinished {
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

impl Events {
    pub fn new(limit: usize) -> Self {
        Self {
            rest: BytesMut::new(),
            searched: 0,
            after_return: false,
            begun: false,
            event: Unfinished::default(),
            last_id: None,
            retry: None,
            limit,
        }
    }

    /// Where to go on after a break, if the server numbers its events.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long to wait before a reconnect: as the server asks, within the bounds, and otherwise `own`.
    pub fn pause(&self, own: Duration, bounds: RangeInclusive<Duration>) -> Duration {
        self.retry.unwrap_or(own).clamp(*bounds.start(), *bounds.end())
    }

    /// The stream goes on in another response: what was unfinished is dropped, ids go on.
    pub fn restart(&mut self) {
        self.rest.clear();
        self.searched = 0;
        self.after_return = false;
        self.begun = false;
        self.event = Unfinished::default();
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next event with data, if all of it is there.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                let Unfinished { name, data, id } = std::mem::take(&mut self.event);
                if id.is_some() {
                    self.last_id = id;
                }
                if let Some(data) = data.map(Data::finish).filter(|data| !data.is_empty()) {
                    return Ok(Some(Event { name, data }));
                }
            } else {
                self.field(&line)?;
            }
        }
        Ok(None)
    }

    /// The next line without its end.
    fn line(&mut self) -> Result<Option<Bytes>, TooLong> {
        if self.after_return && !self.rest.is_empty() {
            self.after_return = false;
            if self.rest[0] == b'\n' {
                let _ = self.rest.split_to(1);
            }
        }
        let found = self.rest[self.searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.rest.len();
            return if self.searched > self.limit { Err(TooLong) } else { Ok(None) };
        };
        self.after_return = self.rest[end] == b'\r';
        self.searched = 0;
        let mut line = self.rest.split_to(end + 1).freeze();
        line.truncate(end);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line = line.slice(3..);
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: &Bytes) -> Result<(), TooLong> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            // A comment, which keeps the connection open.
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
                    return Err(TooLong);
                }
                self.event.data = Some(match before {
                    None => Data::Line(value),
                    Some(before) => before.add(&value),
                });
            }
            b"id" => {
                // Only what can be sent back.
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
