//! Requests to one server and what comes back: connections kept and used again, redirects followed, sizes bounded.
//!
//! A request is written a second time in two cases only: the connection it was meant for had ended before a byte of it
//! was written, or the server answered that it wants it elsewhere.

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
use super::connection::{HttpConnection, Outbound, Unsent};
use super::endpoint::Endpoint;
use super::idle::Idle;
use super::network::{Network, Unreached, shown};

pub(super) const MAX_REDIRECTS: usize = 3;
pub(super) const AGENT: &str = concat!("plexus/", env!("CARGO_PKG_VERSION"));

pub struct Line {
    network: Network,
    /// Headers of the file. They are all that is ever sent of credentials: what a caller of the hub presents is its own.
    headers: HeaderMap,
    home: Arc<Endpoint>,
    idle: Idle,
    limit: usize,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("home", &shown(&self.home.url)).finish_non_exhaustive()
    }
}

impl Line {
    /// To the server at `home`, over `network`. `headers` go with every request to its origin, and to no other. `limit`:
    /// bytes of one message.
    #[must_use]
    pub fn new(home: Endpoint, mut headers: HeaderMap, network: Network, limit: usize) -> Self {
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        Self { network, headers, home: Arc::new(home), idle: Idle::default(), limit }
    }

    /// To the hub that a proxy is for. Whom it speaks for is said with each request.
    pub fn to_hub(
        url: Url,
        tls: Option<Arc<ClientConfig>>,
        patience: Duration,
        limit: usize,
    ) -> Result<Self, HttpError> {
        let network = Network::to(&url, tls, patience);
        Ok(Self::new(Endpoint::own(url)?, HeaderMap::new(), network, limit))
    }

    /// Whether this header goes with every request.
    #[must_use]
    pub fn gives(&self, header: &HeaderName) -> bool {
        self.headers.contains_key(header)
    }

    /// The address that the file names.
    pub fn home(&self) -> &Arc<Endpoint> {
        &self.home
    }

    /// Bytes of one message that are taken.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sends a request, to wherever redirects lead, and waits for the head of the answer. It takes as long as the
    /// server does: whoever calls bounds it. `authorization` goes to the home of this line, and to no other origin.
    ///
    /// # Errors
    /// When there is no answer, or it redirects to where nothing is sent.
    pub async fn send(
        self: &Arc<Self>,
        place: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Reply, HttpError> {
        let mut place = place.clone();
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send_once(&place, method, headers, body, authorization).await?;
            let redirected =
                place.redirected(method, reply.head.status, &reply.head.headers, &self.home.origin)?;
            let Some(next) = redirected else { return Ok(reply) };
            tracing::debug!(from = %shown(&place.url), to = %shown(&next.url), "redirected");
            place = Arc::new(next);
        }
        let home = shown(&self.home.url);
        Err(HttpError::Protocol(format!("{home} redirects more than {MAX_REDIRECTS} times in a row")))
    }

    /// The same to this place and no other.
    pub async fn send_there(
        self: &Arc<Self>,
        place: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, HttpError> {
        self.send_once(place, method, headers, body, None).await
    }

    async fn send_once(
        self: &Arc<Self>,
        place: &Arc<Endpoint>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Reply, HttpError> {
        let mut request = self.request(place, method, headers, body, authorization);
        loop {
            let (mut wire, used) = match self.idle.take(&place.origin).await {
                Some(wire) => (wire, true),
                // Set apart, as all that is rare: it would make every request larger.
                None => (Box::pin(self.dial(place)).await?, false),
            };
            match wire.send(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    return Ok(Reply {
                        line: self.clone(),
                        place: place.clone(),
                        head,
                        body,
                        wire: Some(wire),
                    });
                }
                Err(Unsent { request: Some(back), .. }) if used => request = *back,
                Err(unsent) => return Err(lost(place, unsent)),
            }
        }
    }

    fn request(
        &self,
        place: &Endpoint,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Outbound {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = place.uri.clone();
        let all = request.headers_mut();
        all.reserve(headers.len() + self.headers.len() + 2);
        all.insert(HOST, place.host.clone());
        if place.own {
            if let Some(authorization) = authorization {
                all.insert(AUTHORIZATION, authorization.clone());
            }
            all.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    async fn dial(&self, place: &Endpoint) -> Result<HttpConnection, HttpError> {
        let io = self.network.dial(&place.url).await.map_err(|why| match why {
            Unreached::Refused(why) | Unreached::Failed(why) => HttpError::Unreachable(why),
        })?;
        HttpConnection::open(io).await.map_err(|error| {
            HttpError::Unreachable(format!("{} cannot be talked to: {error}", shown(&place.url)))
        })
    }

    /// Closes kept connections that nobody has used for a while.
    pub fn sweep(&self) {
        self.idle.sweep();
    }

    /// Closes every kept connection.
    pub fn close(&self) {
        self.idle.clear();
    }
}

/// The request was written, at least in part, and no answer to it came.
fn lost(place: &Endpoint, unsent: Unsent) -> HttpError {
    let (place, error) = (shown(&place.url), unsent.error);
    if unsent.request.is_some() {
        return HttpError::Unreachable(format!("{place} closed the connection before the request was sent"));
    }
    if error.is_parse() {
        return HttpError::Protocol(format!("{place} answers with something that is not HTTP: {error}"));
    }
    HttpError::Lost(format!("{place} was lost before it answered: {error}"))
}

/// What an answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Json,
    Events,
    Other,
}

/// An answer whose head is there.
pub struct Reply {
    line: Arc<Line>,
    place: Arc<Endpoint>,
    head: Parts,
    body: Incoming,
    /// None when the body was read to its end: the connection is kept then.
    wire: Option<HttpConnection>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.head.status).finish_non_exhaustive()
    }
}

impl Reply {
    /// Where it came from, after redirects.
    pub fn place(&self) -> &Arc<Endpoint> {
        &self.place
    }

    /// Whether the file gives this header, and it was sent there.
    #[must_use]
    pub fn was_given(&self, header: &str) -> bool {
        self.place.own && self.line.headers.contains_key(header)
    }

    /// Whether it comes from the server that the file names.
    pub fn is_own(&self) -> bool {
        self.place.own
    }

    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.head.headers.get(name)
    }

    /// Every value of a header, with commas in between.
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
        let Some(wire) = &mut self.wire else { return Ok(None) };
        match wire.piece(&mut self.body).await {
            Some(Ok(piece)) => Ok(Some(piece)),
            Some(Err(error)) => {
                self.wire = None;
                let place = shown(&self.place.url);
                Err(HttpError::Lost(format!("the answer of {place} broke off: {error}")))
            }
            None => {
                if let Some(mut wire) = self.wire.take()
                    && wire.is_ready().await
                {
                    self.line.idle.keep(self.place.origin.clone(), wire, None);
                }
                Ok(None)
            }
        }
    }

    /// The whole body in one piece. What comes in one piece is not copied.
    pub async fn whole(mut self) -> Result<Bytes, HttpError> {
        let limit = self.line.limit;
        let announced =
            self.head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let announced: usize = announced.unwrap_or_default();
        if announced > limit {
            return Err(self.too_long());
        }
        let Some(first) = self.piece().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.piece().await? else { return Ok(first) };
        let mut whole = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(piece) = self.piece().await? {
            if whole.len() + piece.len() > limit {
                return Err(self.too_long());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    pub fn too_long(&self) -> HttpError {
        let (place, limit) = (shown(&self.place.url), self.line.limit);
        HttpError::Protocol(format!("the answer of {place} is longer than {limit} bytes"))
    }

    /// Nothing more of the body is wanted, although it may go on: a stream whose last message was read.
    pub fn leave(mut self) {
        if let Some(wire) = self.wire.take() {
            self.line.idle.keep(self.place.origin.clone(), wire, Some(self.body));
        }
    }
}
