//! Requests to the hub, and what it answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use rustls::ClientConfig;
use url::Url;

use crate::http_client::{Endpoint, Events, HttpError, Line, Media, Reply};

/// Why the hub did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It was not reached: the request did not get there.
    #[error("{0}")]
    Unreached(String),
    /// It was lost after the request was sent, or what it sent is no answer: nobody knows whether it was carried out.
    #[error("{0}")]
    Lost(String),
}

impl From<HttpError> for Unanswered {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Unreachable(why) => Self::Unreached(why),
            other => Self::Lost(other.to_string()),
        }
    }
}

/// The way to one hub, with connections that are used again. Cheap to clone.
#[derive(Clone)]
pub struct HubLine {
    line: Arc<Line>,
    mcp: Arc<Endpoint>,
}

impl fmt::Debug for HubLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.fmt(f)
    }
}

impl HubLine {
    /// To the hub at `url`. `tls` instead of what this machine trusts; `patience` to connect; `limit`: bytes of one message.
    ///
    /// # Errors
    /// When that is no address of a hub.
    pub fn new(
        url: Url,
        tls: Option<Arc<ClientConfig>>,
        patience: Duration,
        limit: usize,
    ) -> Result<Self, Unanswered> {
        let line = Arc::new(Line::to_hub(url, tls, patience, limit)?);
        let mcp = Arc::new(line.home().sibling("mcp")?);
        Ok(Self { line, mcp })
    }

    /// One exchange with the MCP endpoint, up to the head of the answer. It takes as long as the hub does.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn mcp(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, Unanswered> {
        self.exchange(&self.mcp, method, headers, body).await
    }

    /// The same with a path below the hub's address, such as `api/v1/context`.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn api(
        &self,
        path: &str,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, Unanswered> {
        let place = Arc::new(self.line.home().sibling(path)?);
        self.exchange(&place, method, headers, body).await
    }

    async fn exchange(
        &self,
        place: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, Unanswered> {
        let reply = self.line.send_there(place, method, headers, body).await?;
        Ok(HubReply { events: Events::new(self.line.limit()), reply })
    }

    /// Closes connections that nobody uses.
    pub fn sweep(&self) {
        self.line.sweep();
    }
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Where to go on from if the stream breaks, if the hub says so.
    pub id: Option<String>,
    pub json: Bytes,
}

/// An answer whose head is there.
pub struct HubReply {
    reply: Reply,
    events: Events,
}

impl fmt::Debug for HubReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubReply").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl HubReply {
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.reply.status()
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.reply.header(name)
    }

    /// Whether it is a stream of messages, and not one.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.reply.media() == Media::Events
    }

    /// Whether it is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.reply.media() == Media::Json
    }

    /// The whole body.
    ///
    /// # Errors
    /// When it breaks off or is too long.
    pub async fn whole(self) -> Result<Bytes, Unanswered> {
        Ok(self.reply.whole().await?)
    }

    /// The next message of a stream; none at its end. A stream that says nothing at all for `silence`, not even that it is
    /// there, is lost.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn next(&mut self, silence: Duration) -> Result<Option<Told>, Unanswered> {
        loop {
            match self.events.next_event() {
                Ok(Some(event)) if event.is_message() => {
                    return Ok(Some(Told { id: self.last_id().map(str::to_owned), json: event.data }));
                }
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => return Err(self.reply.too_long().into()),
            }
            let piece = tokio::time::timeout(silence, self.reply.piece()).await;
            let quiet =
                || Unanswered::Lost(format!("nothing was heard of the hub for {} s", silence.as_secs()));
            match piece.map_err(|_| quiet())?? {
                Some(piece) => self.events.push(&piece),
                None => return Ok(None),
            }
        }
    }

    /// The last message that was read, where messages are numbered.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.events.last_id()
    }

    /// Nothing more of a stream is wanted: its last message was read.
    pub fn leave(self) {
        self.reply.leave();
    }
}
