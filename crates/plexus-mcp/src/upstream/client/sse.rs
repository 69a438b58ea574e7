//! The HTTP transport of 2024-11-05: a stream of events that the server answers on, and an address to post to, which
//! the first event names.
//!
//! A message is posted at a time, and the next one when the server has taken it. When the stream ends the connection is
//! gone: sessions of this transport cannot be taken up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

use super::connection::{Connection, Opening};
use super::http::Dial;
use super::http::events::{Event, Events};
use super::http::line::{Line, Media, Reply};
use super::http::place::Place;
use super::http::refusal;
use super::net::shown;
use super::pipe::{Pipe, Receive, Transmit, TransmitError};
use super::{ClientError, Connect};

/// For the server to take a message; what it does with it comes on the stream.
const TAKING: Duration = Duration::from_secs(30);

/// Opens the stream, waits for the address, and agrees on a revision.
pub(super) async fn connect(connect: &Connect, dial: Dial<'_>) -> Result<Connection, ClientError> {
    let line = Arc::new(dial.line()?);
    let mut stream = Stream::open(line.clone()).await?;
    let address = stream.address().await?;
    let posting = Posting { line, address: Arc::new(address) };
    let pipe = Pipe::open(dial.server, stream, posting, connect.listener.clone(), dial.supervisor);
    // This transport is older than any other era.
    Connection::open(pipe, Opening::Initialize, None, connect).await
}

/// The stream that the server answers on.
struct Stream {
    place: Arc<Place>,
    pieces: Reply,
    events: Events,
}

impl Stream {
    async fn open(line: Arc<Line>) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let home = line.home().clone();
        let reply = line.send(&home, &Method::GET, &headers, &Bytes::new()).await?;
        let place = reply.place().clone();
        if !reply.status().is_success() {
            return Err(refusal::read(reply, "the event stream", false).await.into_error());
        }
        if reply.media() != Media::Events {
            let (place, kind) = (shown(&place.url), reply.content_type());
            return Err(ClientError::Protocol(format!(
                "{place} answers with the content type `{kind}` where a stream of events is expected; check `url` \
                 and `transport` in the server's file"
            )));
        }
        Ok(Self { place, events: Events::new(line.limit()), pieces: reply })
    }

    async fn next(&mut self) -> Result<Event, String> {
        loop {
            match self.events.next() {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => match self.pieces.piece().await {
                    Ok(Some(piece)) => self.events.push(&piece),
                    Ok(None) => return Err(format!("{} ended the stream of events", shown(&self.place.url))),
                    Err(error) => return Err(error.to_string()),
                },
                Err(_) => return Err(self.pieces.too_long().to_string()),
            }
        }
    }

    /// Where messages go: of the same origin, since they carry the file's headers.
    async fn address(&mut self) -> Result<Place, ClientError> {
        let event = self.next().await.map_err(ClientError::Unreachable)?;
        if event.name.as_deref() != Some(b"endpoint") {
            let place = shown(&self.place.url);
            let message = format!("{place} does not begin its stream with the address that messages go to");
            return Err(ClientError::Protocol(message));
        }
        let reference = String::from_utf8_lossy(&event.data);
        self.place.sibling(reference.trim())
    }
}

impl Receive for Stream {
    async fn receive(&mut self) -> Result<Bytes, String> {
        loop {
            let event = self.next().await?;
            match event.name.as_deref() {
                None | Some(b"message") => return Ok(event.data),
                Some(_) => {}
            }
        }
    }
}

/// The address that messages are posted to.
struct Posting {
    line: Arc<Line>,
    address: Arc<Place>,
}

impl Transmit for Posting {
    async fn transmit(&mut self, message: Vec<u8>) -> Result<(), TransmitError> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Bytes::from(message);
        let mut gone = false;
        let post = async {
            let reply = self.line.send(&self.address, &Method::POST, &headers, &body).await?;
            if reply.status().is_success() {
                // Its body says nothing, and the connection can be used again when it is read.
                return reply.whole().await.map(drop);
            }
            gone = reply.status() == StatusCode::NOT_FOUND;
            Err(refusal::read(reply, "a message", gone).await.into_error())
        };
        let posted = tokio::time::timeout(TAKING, post).await.unwrap_or_else(|_| {
            let place = shown(&self.address.url);
            Err(ClientError::Lost(format!("{place} did not take a message within {} s", TAKING.as_secs())))
        });
        posted.map_err(|error| match error {
            // The server has forgotten this connection, although its stream may still be open.
            error if gone => TransmitError::Connection(error.to_string()),
            error => TransmitError::Message(error),
        })
    }
}
