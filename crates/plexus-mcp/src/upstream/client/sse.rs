//! The HTTP transport of 2024-11-05: a stream of events that the server answers on, and an address to post to, which
//! the first event names.
//!
//! A message is posted when the server has taken the one before it, so that they arrive in order; one that takes its time
//! over that holds up the others for a moment only. When the stream ends the connection is gone: sessions of this
//! transport cannot be taken up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use plexus_kit::{Stage, Supervisor};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{Connection, Opening};
use super::http::Dial;
use super::http::events::{Event, Events};
use super::http::line::{Line, Media, Reply};
use super::http::place::Place;
use super::http::refusal;
use super::net::shown;
use super::pipe::{Pipe, Receive, Transmit, TransmitError};
use super::{ClientError, Connect};

/// For the server to take a message before the next one is posted. Most do so at once; some only when they are done with
/// it, although the result comes on the stream.
const TAKING: Duration = Duration::from_secs(2);
/// Messages that are not taken for longer than that. One more is an error of the call it is of.
const MAX_UNTAKEN: usize = 64;

/// Opens the stream, waits for the address, and agrees on a revision.
pub(super) async fn connect(connect: &Connect, dial: Dial<'_>) -> Result<Connection, ClientError> {
    let line = Arc::new(dial.line()?);
    let mut stream = Stream::open(line.clone()).await?;
    let address = stream.address().await?;
    let ended = CancellationToken::new();
    let posting = Posting {
        task: format!("upstream {}: slow post", dial.server),
        line,
        address: Arc::new(address),
        untaken: Arc::new(Semaphore::new(MAX_UNTAKEN)),
        supervisor: dial.supervisor.clone(),
        ended: ended.clone(),
        _end: ended.drop_guard(),
    };
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
    task: String,
    line: Arc<Line>,
    address: Arc<Place>,
    untaken: Arc<Semaphore>,
    supervisor: Supervisor,
    /// Ends what is still being posted.
    ended: CancellationToken,
    _end: DropGuard,
}

impl Transmit for Posting {
    async fn transmit(&mut self, message: Vec<u8>) -> Result<(), TransmitError> {
        let mut posting = Box::pin(post(self.line.clone(), self.address.clone(), Bytes::from(message)));
        if let Ok(posted) = tokio::time::timeout(TAKING, &mut posting).await {
            return posted;
        }
        let Ok(turn) = self.untaken.clone().try_acquire_owned() else {
            let place = shown(&self.address.url);
            let message = format!("{place} has not taken {MAX_UNTAKEN} messages yet, nor this one");
            return Err(TransmitError::Message(ClientError::Lost(message)));
        };
        let ended = self.ended.clone();
        self.supervisor.spawn(Stage::Storage, self.task.clone(), async move {
            let _turn = turn;
            tokio::select! {
                () = ended.cancelled() => {}
                posted = posting => if let Err(error) = posted {
                    tracing::debug!(?error, "a message was refused after a while");
                }
            }
        });
        Ok(())
    }
}

async fn post(line: Arc<Line>, address: Arc<Place>, message: Bytes) -> Result<(), TransmitError> {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let sent = line.send(&address, &Method::POST, &headers, &message).await;
    let reply = sent.map_err(TransmitError::Message)?;
    if reply.status().is_success() {
        // Its body says nothing, and the connection can be used again when it is read.
        return reply.whole().await.map(drop).map_err(TransmitError::Message);
    }
    let gone = reply.status() == StatusCode::NOT_FOUND;
    let error = refusal::read(reply, "a message", gone).await.into_error();
    // The server has forgotten this connection, although its stream may still be open.
    Err(if gone { TransmitError::Connection(error.to_string()) } else { TransmitError::Message(error) })
}
