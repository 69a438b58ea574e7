//! Requests to the hub and their answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use rustls::ClientConfig;
use url::Url;

use crate::http_client::{Endpoint, HttpClient, HttpError, Media, Reply, SseParser};

/// Why a request to the hub has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubRequestError {
    /// The hub was not reached: it did not receive the request.
    #[error("{0}")]
    Unreachable(String),
    /// The connection was lost after the request was sent, or the answer is invalid: the outcome is unknown.
    #[error("{0}")]
    Lost(String),
}

impl From<HttpError> for HubRequestError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Unreachable(why) => Self::Unreachable(why),
            other => Self::Lost(other.to_string()),
        }
    }
}

/// A client of one hub, which reuses connections. Cheap to clone.
#[derive(Clone)]
pub struct HubClient {
    client: Arc<HttpClient>,
    mcp: Arc<Endpoint>,
}

impl fmt::Debug for HubClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl HubClient {
    /// A client of the hub at `url`. `tls` replaces the machine's trusted certificates. `limit` is the size limit of
    /// a message in bytes.
    ///
    /// # Errors
    /// If the URL cannot be the address of a hub.
    pub fn new(
        url: Url,
        tls: Option<Arc<ClientConfig>>,
        connect_timeout: Duration,
        limit: usize,
    ) -> Result<Self, HubRequestError> {
        let client = Arc::new(HttpClient::for_hub(url, tls, connect_timeout, limit)?);
        let mcp = Arc::new(client.home().sibling("mcp")?);
        Ok(Self { client, mcp })
    }

    /// Sends a request to the MCP endpoint and waits for the head of the answer, without a time limit.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn mcp(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, HubRequestError> {
        self.exchange(&self.mcp, method, headers, body).await
    }

    /// Like [`Self::mcp`], with a path below the hub's address, such as `api/v1/context`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn api(
        &self,
        path: &str,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, HubRequestError> {
        let endpoint = Arc::new(self.client.home().sibling(path)?);
        self.exchange(&endpoint, method, headers, body).await
    }

    async fn exchange(
        &self,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, HubRequestError> {
        let reply = self.client.send_once(endpoint, method, headers, body).await?;
        Ok(HubReply { events: SseParser::new(self.client.limit()), reply })
    }

    /// Closes connections that have been idle too long.
    pub fn sweep(&self) {
        self.client.sweep();
    }
}

/// A message of an event stream from the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubMessage {
    /// The event id to resume after, if the hub sent one.
    pub id: Option<String>,
    pub json: Bytes,
}

/// An answer whose head has arrived.
pub struct HubReply {
    reply: Reply,
    events: SseParser,
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

    /// Whether it is an event stream.
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
    /// If it ends early or is too long.
    pub async fn bytes(self) -> Result<Bytes, HubRequestError> {
        Ok(self.reply.bytes().await?)
    }

    /// The next message of a stream; none at its end. A stream on which nothing arrives for `silence`, not even a
    /// keep-alive, counts as lost.
    ///
    /// # Errors
    /// If it ends early.
    pub async fn next(&mut self, silence: Duration) -> Result<Option<HubMessage>, HubRequestError> {
        loop {
            match self.events.next_event() {
                Ok(Some(event)) if event.is_message() => {
                    return Ok(Some(HubMessage { id: self.last_id().map(str::to_owned), json: event.data }));
                }
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => return Err(self.reply.too_long().into()),
            }
            let piece = tokio::time::timeout(silence, self.reply.piece()).await;
            let quiet = || HubRequestError::Lost(format!("the hub sent nothing for {} s", silence.as_secs()));
            match piece.map_err(|_| quiet())?? {
                Some(piece) => self.events.push(&piece),
                None => return Ok(None),
            }
        }
    }

    /// The id of the last event that was read, if the hub sends ids.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.events.last_id()
    }

    /// Returns the connection of a stream whose last message was read to the pool.
    pub fn release(self) {
        self.reply.release();
    }
}
