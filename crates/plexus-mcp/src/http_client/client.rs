//! Requests to one server and their answers, with connection reuse, redirects and size limits.
//!
//! A request is written again in two cases only: its connection ended before a byte of it was written, or the server
//! redirected it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    USER_AGENT,
};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::ClientConfig;
use url::Url;

use super::HttpError;
use super::connection::{HttpConnection, Outbound, SendError};
use super::endpoint::Endpoint;
use super::idle::IdlePool;
use super::network::{DialError, Network, origin_of};

pub(super) const MAX_REDIRECTS: usize = 3;
pub(super) const USER_AGENT_VALUE: &str = concat!("plexus/", env!("CARGO_PKG_VERSION"));

/// A client of one server. It sends no credentials except the configured headers and an explicit authorization; those
/// of the hub's callers stay in the hub.
pub struct HttpClient {
    network: Network,
    /// The configured headers.
    headers: HeaderMap,
    home: Arc<Endpoint>,
    idle: IdlePool,
    limit: usize,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("home", &origin_of(&self.home.url)).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A client of the server at `home`. `headers` are sent with every request to its origin, and to no other.
    /// `limit` is the size limit of a message in bytes.
    #[must_use]
    pub fn new(home: Endpoint, mut headers: HeaderMap, network: Network, limit: usize) -> Self {
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT_VALUE));
        Self { network, headers, home: Arc::new(home), idle: IdlePool::default(), limit }
    }

    /// A proxy's client of its hub. Each request carries its own credentials.
    pub fn for_hub(
        url: Url,
        tls: Option<Arc<ClientConfig>>,
        connect_timeout: Duration,
        limit: usize,
    ) -> Result<Self, HttpError> {
        let network = Network::for_hub(&url, tls, connect_timeout);
        Ok(Self::new(Endpoint::home(url)?, HeaderMap::new(), network, limit))
    }

    /// Whether the configured headers include this one.
    #[must_use]
    pub fn has_own_header(&self, header: &HeaderName) -> bool {
        self.headers.contains_key(header)
    }

    /// The configured address.
    pub fn home(&self) -> &Arc<Endpoint> {
        &self.home
    }

    /// Size limit of a message in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sends a request, following redirects, and waits for the head of the answer. There is no time limit; the caller
    /// sets one. `authorization` is sent to the home origin only.
    ///
    /// # Errors
    /// If there is no answer, or a redirect is not allowed.
    pub async fn send(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Reply, HttpError> {
        let mut endpoint = endpoint.clone();
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send_to(&endpoint, method, headers, body, authorization).await?;
            let redirected =
                endpoint.redirected(method, reply.head.status, &reply.head.headers, &self.home.origin)?;
            let Some(next) = redirected else { return Ok(reply) };
            tracing::debug!(from = %origin_of(&endpoint.url), to = %origin_of(&next.url), "redirected");
            endpoint = Arc::new(next);
        }
        let home = origin_of(&self.home.url);
        Err(HttpError::Protocol(format!("{home} redirects more than {MAX_REDIRECTS} times in a row")))
    }

    /// Like [`Self::send`], without following redirects.
    pub async fn send_once(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, HttpError> {
        self.send_to(endpoint, method, headers, body, None).await
    }

    async fn send_to(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Reply, HttpError> {
        let mut request = self.request(endpoint, method, headers, body, authorization);
        loop {
            let (mut connection, reused) = match self.idle.take(&endpoint.origin).await {
                Some(connection) => (connection, true),
                // Boxed because it is rare and would enlarge the future of every request.
                None => (Box::pin(self.dial(endpoint)).await?, false),
            };
            match connection.send(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    return Ok(Reply {
                        client: self.clone(),
                        endpoint: endpoint.clone(),
                        head,
                        body,
                        connection: Some(connection),
                    });
                }
                Err(SendError { request: Some(unsent), .. }) if reused => request = *unsent,
                Err(failed) => return Err(send_error(endpoint, failed)),
            }
        }
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Outbound {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = endpoint.uri.clone();
        let all = request.headers_mut();
        all.reserve(headers.len() + self.headers.len() + 2);
        all.insert(HOST, endpoint.host.clone());
        if endpoint.is_home {
            if let Some(authorization) = authorization {
                all.insert(AUTHORIZATION, authorization.clone());
            }
            all.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    async fn dial(&self, endpoint: &Endpoint) -> Result<HttpConnection, HttpError> {
        let io = self.network.dial(&endpoint.url).await.map_err(|error| match error {
            DialError::Refused(why) | DialError::Failed(why) => HttpError::Unreachable(why),
        })?;
        HttpConnection::open(io).await.map_err(|error| {
            HttpError::Unreachable(format!(
                "cannot open an HTTP connection to {}: {error}",
                origin_of(&endpoint.url)
            ))
        })
    }

    /// Closes connections that have been idle too long.
    pub fn sweep(&self) {
        self.idle.sweep();
    }

    /// Closes all idle connections.
    pub fn close(&self) {
        self.idle.clear();
    }
}

fn send_error(endpoint: &Endpoint, failed: SendError) -> HttpError {
    let (endpoint, error) = (origin_of(&endpoint.url), failed.error);
    if failed.request.is_some() {
        return HttpError::Unreachable(format!(
            "{endpoint} closed the connection before the request was sent"
        ));
    }
    if error.is_parse() {
        return HttpError::Protocol(format!("the answer of {endpoint} is not HTTP: {error}"));
    }
    HttpError::Lost(format!("the connection to {endpoint} was lost before it answered: {error}"))
}

/// The kind of an answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Json,
    Events,
    Other,
}

/// An answer whose head has arrived.
pub struct Reply {
    client: Arc<HttpClient>,
    endpoint: Arc<Endpoint>,
    head: Parts,
    body: Incoming,
    /// None after the end of the body, when the connection is back in the pool.
    connection: Option<HttpConnection>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.head.status).finish_non_exhaustive()
    }
}

impl Reply {
    /// The address that answered, after redirects.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Whether this configured header was sent with the request.
    #[must_use]
    pub fn was_sent(&self, header: &str) -> bool {
        self.endpoint.is_home && self.client.headers.contains_key(header)
    }

    /// Whether it comes from the configured server.
    pub fn is_from_home(&self) -> bool {
        self.endpoint.is_home
    }

    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.head.headers.get(name)
    }

    /// All values of a header, separated by commas.
    pub fn all(&self, name: &HeaderName) -> String {
        let values = self.head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(", ")
    }

    pub fn media(&self) -> Media {
        let encoded = self.head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
        let media = self.content_type().split(';').next().unwrap_or_default().trim();
        match media {
            _ if encoded => Media::Other,
            _ if media.eq_ignore_ascii_case("application/json") => Media::Json,
            _ if media.eq_ignore_ascii_case("text/event-stream") => Media::Events,
            _ => Media::Other,
        }
    }

    pub fn content_type(&self) -> &str {
        self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        match connection.piece(&mut self.body).await {
            Some(Ok(piece)) => Ok(Some(piece)),
            Some(Err(error)) => {
                self.connection = None;
                let endpoint = origin_of(&self.endpoint.url);
                Err(HttpError::Lost(format!("the answer of {endpoint} broke off: {error}")))
            }
            None => {
                if let Some(mut connection) = self.connection.take()
                    && connection.is_ready().await
                {
                    self.client.idle.put(self.endpoint.origin.clone(), connection, None);
                }
                Ok(None)
            }
        }
    }

    /// The whole body. A body that arrives in one piece is not copied.
    pub async fn bytes(mut self) -> Result<Bytes, HttpError> {
        let limit = self.client.limit;
        let announced =
            self.head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let announced: usize = announced.unwrap_or_default();
        if announced > limit {
            return Err(self.too_long());
        }
        let Some(first) = self.piece().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.piece().await? else { return Ok(first) };
        let mut body = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        body.extend_from_slice(&first);
        body.extend_from_slice(&second);
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > limit {
                return Err(self.too_long());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    pub fn too_long(&self) -> HttpError {
        let (endpoint, limit) = (origin_of(&self.endpoint.url), self.client.limit);
        HttpError::Protocol(format!("the answer of {endpoint} is longer than {limit} bytes"))
    }

    /// Returns the connection to the pool although the body may continue, for a stream whose last message was read.
    pub fn release(mut self) {
        if let Some(connection) = self.connection.take() {
            self.client.idle.put(self.endpoint.origin.clone(), connection, Some(self.body));
        }
    }
}
