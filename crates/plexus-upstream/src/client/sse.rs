//! The HTTP+SSE transport of 2024-11-05: an event stream for the server's messages, and an endpoint for the
//! client's messages, which the first event names.
//!
//! Requests are posted concurrently, because a server may delay the HTTP answer to each until it is done.
//! Other messages must be accepted before anything else is posted, so that the end of the handshake precedes
//! the first call; a server that is slow at this is not waited for a second time. A refusal fails the
//! request, however late it comes. When the stream ends the connection is lost: sessions of this transport
//! cannot be resumed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use plexus_mcp::http_client::{Endpoint, Media, Reply, SseEvent, SseParser, origin_of};
use serde_json::Value;

use super::connection::{Connection, Opening};
use super::http::Dial;
use super::http::authorized_http::AuthorizedHttp;
use super::http::refusal;
use super::message::RequestId;
use super::pipe::{LateFailure, Pipe, Receive, Transmit, TransmitError};
use super::{ClientError, Connect};

/// Time limit for the server to accept a message. Most do so immediately.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of messages that the server has not accepted. Another one waits for a free place within the time
/// limit, and then fails unsent.
const MAX_UNACCEPTED: usize = 256;

/// Opens the stream, waits for the endpoint, and performs the handshake.
pub(super) async fn connect(connect: &Connect, dial: Dial<'_>) -> Result<Connection, ClientError> {
    let http = Arc::new(dial.http()?);
    let mut stream = SseStream::open(http.clone()).await?;
    let address = stream.address().await?;
    let posting = Posting::new(http, address);
    let (listener, chatter) = (connect.listener.clone(), connect.chatter.clone());
    let pipe = Pipe::open(dial.server, stream, posting, listener, chatter, dial.supervisor);
    // This transport predates the other eras.
    Connection::open(pipe, Opening::Initialize, None, connect).await
}

/// The stream with the server's messages.
struct SseStream {
    endpoint: Arc<Endpoint>,
    pieces: Reply,
    events: SseParser,
}

impl SseStream {
    async fn open(http: Arc<AuthorizedHttp>) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let home = http.home().clone();
        let reply = http.send(&home, &Method::GET, &headers, &Bytes::new()).await?;
        let endpoint = reply.endpoint().clone();
        if !reply.status().is_success() {
            return Err(refusal::read(&http, reply, "the event stream", false).await.into_error());
        }
        if reply.media() != Media::Events {
            let (origin, kind) = (origin_of(&endpoint.url), reply.content_type());
            return Err(ClientError::Protocol(format!(
                "{origin} answers with the content type `{kind}` where a stream of events is expected; check `url` \
                 and `transport` in the server's file"
            )));
        }
        Ok(Self { endpoint, events: SseParser::new(http.limit()), pieces: reply })
    }

    async fn next(&mut self) -> Result<SseEvent, String> {
        loop {
            match self.events.next_event() {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => match self.pieces.piece().await {
                    Ok(Some(piece)) => self.events.push(&piece),
                    Ok(None) => {
                        return Err(format!("{} ended the stream of events", origin_of(&self.endpoint.url)));
                    }
                    Err(error) => return Err(error.to_string()),
                },
                Err(_) => return Err(self.pieces.too_long().to_string()),
            }
        }
    }

    /// The endpoint for messages: of the same origin, since messages carry the file's headers.
    async fn address(&mut self) -> Result<Endpoint, ClientError> {
        let event = self.next().await.map_err(ClientError::Unreachable)?;
        if event.name.as_deref() != Some(b"endpoint") {
            let origin = origin_of(&self.endpoint.url);
            let message = format!("{origin} does not begin its stream with the endpoint for messages");
            return Err(ClientError::Protocol(message));
        }
        let reference = String::from_utf8_lossy(&event.data);
        Ok(self.endpoint.sibling(reference.trim())?)
    }
}

impl Receive for SseStream {
    async fn receive(&mut self) -> Result<Bytes, String> {
        loop {
            let event = self.next().await?;
            if event.is_message() {
                return Ok(event.data);
            }
        }
    }
}

/// The endpoint that messages are posted to.
struct Posting {
    http: Arc<AuthorizedHttp>,
    address: Arc<Endpoint>,
    /// Messages that the server has not accepted yet. They end with the connection.
    unaccepted: FuturesUnordered<BoxFuture<'static, Posted>>,
    /// Failures that occurred while another message was waited for.
    failed: VecDeque<LateFailure>,
    /// The number of the next message.
    number: u64,
    /// Whether the server has promptly accepted the messages that were waited for so far.
    prompt: bool,
}

/// The outcome of a message: its number, its id if it is a request, and whether the server accepted it.
type Posted = (u64, Option<RequestId>, Result<(), TransmitError>);

impl Posting {
    fn new(http: Arc<AuthorizedHttp>, address: Endpoint) -> Self {
        let (unaccepted, failed) = (FuturesUnordered::new(), VecDeque::new());
        Self { http, address: Arc::new(address), unaccepted, failed, number: 0, prompt: true }
    }

    /// Waits until the server has accepted or refused a message; returns its number.
    async fn accepted(&mut self) -> u64 {
        let Some((number, id, posted)) = self.unaccepted.next().await else {
            return std::future::pending().await;
        };
        if let Err(error) = posted {
            self.failed.push_back((id, error));
        }
        number
    }
}

impl Transmit for Posting {
    async fn transmit(&mut self, id: Option<RequestId>, message: Vec<u8>) -> Result<(), TransmitError> {
        if self.unaccepted.len() >= MAX_UNACCEPTED
            && tokio::time::timeout(ACCEPT_TIMEOUT, self.accepted()).await.is_err()
        {
            let origin = origin_of(&self.address.url);
            let message = format!("{origin} has not accepted {MAX_UNACCEPTED} messages yet; try again later");
            return Err(TransmitError::Message(ClientError::Unreachable(message)));
        }
        self.number += 1;
        let number = self.number;
        let posting = post(self.http.clone(), self.address.clone(), Bytes::from(message));
        self.unaccepted.push(Box::pin(async move { (number, id, posting.await) }));
        // Some servers accept a request only when it is done, although the result arrives on the stream.
        if id.is_none() && self.prompt {
            let accepted = async { while self.accepted().await != number {} };
            self.prompt = tokio::time::timeout(ACCEPT_TIMEOUT, accepted).await.is_ok();
        }
        Ok(())
    }

    async fn late(&mut self) -> LateFailure {
        loop {
            match self.failed.pop_front() {
                Some(failed) => return failed,
                None => self.accepted().await,
            };
        }
    }
}

/// The method of an outgoing message.
fn method_of(message: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message["method"].as_str().map(str::to_owned)
}

async fn post(
    http: Arc<AuthorizedHttp>,
    address: Arc<Endpoint>,
    message: Bytes,
) -> Result<(), TransmitError> {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let sent = http.send(&address, &Method::POST, &headers, &message).await;
    let reply = sent.map_err(TransmitError::Message)?;
    if reply.status().is_success() {
        // The body has no meaning; reading it allows reusing the connection.
        return reply.bytes().await.map(drop).map_err(|error| TransmitError::Message(error.into()));
    }
    let endpoint_gone = reply.status() == StatusCode::NOT_FOUND;
    let method = method_of(&message);
    let error = refusal::read(&http, reply, method.as_deref().unwrap_or("a message"), endpoint_gone)
        .await
        .into_error();
    // The server has forgotten this connection, although its stream may still be open.
    Err(if endpoint_gone {
        TransmitError::Connection(error.to_string())
    } else {
        TransmitError::Message(error)
    })
}
