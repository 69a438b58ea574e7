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

use super::super::net::{Network, shown};
use super::idle::Idle;
use super::place::{self, Place};
use super::wire::{Outbound, Unsent, Wire};
use crate::upstream::client::ClientError;
use crate::upstream::config::HttpConfig;
use crate::upstream::oauth::{AtHand, Bearer, Pass};

pub(super) const MAX_REDIRECTS: usize = 3;
pub(super) const AGENT: &str = concat!("plexus/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Line {
    network: Network,
    /// Headers of the file. They are all that is ever sent of credentials: what a caller of the hub presents is its own.
    headers: HeaderMap,
    /// Who the hub is logged in as there, where the file gives no such header.
    account: Option<Pass>,
    home: Arc<Place>,
    idle: Idle,
    limit: usize,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("home", &shown(&self.home.url)).finish_non_exhaustive()
    }
}

impl Line {
    /// `inner`: whether the hub's settings allow private networks to all servers. `limit`: bytes of one message.
    pub(crate) fn new(
        config: &HttpConfig,
        inner: bool,
        patience: Duration,
        limit: usize,
    ) -> Result<Self, ClientError> {
        let (home, mut headers) = place::of_file(config)?;
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let inner = inner || config.allow_private;
        let network = Network::of(&home.url, config.auth.tls.clone(), inner, patience);
        let home = Arc::new(home);
        Ok(Self { network, headers, account: None, home, idle: Idle::default(), limit })
    }

    /// To the hub that a proxy is for. Whom it speaks for is said with each request.
    pub(crate) fn to_hub(
        url: Url,
        tls: Option<Arc<ClientConfig>>,
        patience: Duration,
        limit: usize,
    ) -> Result<Self, ClientError> {
        let network = Network::to(&url, tls, patience);
        let headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(AGENT))]);
        let home = Arc::new(Place::own(url)?);
        Ok(Self { network, headers, account: None, home, idle: Idle::default(), limit })
    }

    /// With what an account gives, unless the file's own headers say who the hub is.
    pub(crate) fn with_account(mut self, account: Option<Pass>) -> Self {
        self.account = account.filter(|_| !self.headers.contains_key(AUTHORIZATION));
        self
    }

    /// The address that the file names.
    pub(crate) fn home(&self) -> &Arc<Place> {
        &self.home
    }

    /// Bytes of one message that are taken.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Sends a request, to wherever redirects lead, and waits for the head of the answer. It takes as long as the
    /// server does: whoever calls bounds it.
    ///
    /// What a server refuses for want of a login that is still good was not carried out: it is sent once more as soon as
    /// there is a newer one.
    pub(crate) async fn send(
        self: &Arc<Self>,
        place: &Arc<Place>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, ClientError> {
        let Some(account) = &self.account else {
            return self.follow(place, method, headers, body, None).await;
        };
        let bearer = match account.at_hand() {
            AtHand::Now(bearer) => bearer,
            AtHand::Later => Box::pin(account.bearer()).await?,
        };
        let reply = self.follow(place, method, headers, body, bearer.as_ref()).await?;
        if !account.is_refused(&reply, bearer.as_ref()) {
            return Ok(reply);
        }
        Box::pin(async {
            let Some(newer) = account.renewed(bearer.as_ref()).await? else { return Ok(reply) };
            let reply = self.follow(place, method, headers, body, Some(&newer)).await?;
            account.is_refused(&reply, Some(&newer));
            Ok(reply)
        })
        .await
    }

    async fn follow(
        self: &Arc<Self>,
        place: &Arc<Place>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        bearer: Option<&Bearer>,
    ) -> Result<Reply, ClientError> {
        let mut place = place.clone();
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send_once(&place, method, headers, body, bearer).await?;
            let redirected =
                place.redirected(method, reply.head.status, &reply.head.headers, &self.home.origin)?;
            let Some(next) = redirected else { return Ok(reply) };
            tracing::debug!(from = %shown(&place.url), to = %shown(&next.url), "redirected");
            place = Arc::new(next);
        }
        let home = shown(&self.home.url);
        Err(ClientError::Protocol(format!("{home} redirects more than {MAX_REDIRECTS} times in a row")))
    }

    /// The same to this place and no other.
    pub(crate) async fn send_there(
        self: &Arc<Self>,
        place: &Arc<Place>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, ClientError> {
        self.send_once(place, method, headers, body, None).await
    }

    async fn send_once(
        self: &Arc<Self>,
        place: &Arc<Place>,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        bearer: Option<&Bearer>,
    ) -> Result<Reply, ClientError> {
        let mut request = self.request(place, method, headers, body, bearer);
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
        place: &Place,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        bearer: Option<&Bearer>,
    ) -> Outbound {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = place.uri.clone();
        let all = request.headers_mut();
        all.reserve(headers.len() + self.headers.len() + 2);
        all.insert(HOST, place.host.clone());
        if place.own {
            if let Some(bearer) = bearer {
                all.insert(AUTHORIZATION, bearer.header.clone());
            }
            all.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        request
    }

    async fn dial(&self, place: &Place) -> Result<Wire, ClientError> {
        let io = self.network.dial(&place.url).await?;
        Wire::open(io).await.map_err(|error| {
            ClientError::Unreachable(format!("{} cannot be talked to: {error}", shown(&place.url)))
        })
    }

    /// Closes kept connections that nobody has used for a while.
    pub(crate) fn sweep(&self) {
        self.idle.sweep();
    }

    /// Closes every kept connection.
    pub(crate) fn close(&self) {
        self.idle.clear();
    }
}

/// The request was written, at least in part, and no answer to it came.
fn lost(place: &Place, unsent: Unsent) -> ClientError {
    let (place, error) = (shown(&place.url), unsent.error);
    if unsent.request.is_some() {
        return ClientError::Unreachable(format!(
            "{place} closed the connection before the request was sent"
        ));
    }
    if error.is_parse() {
        return ClientError::Protocol(format!("{place} answers with something that is not HTTP: {error}"));
    }
    ClientError::Lost(format!("{place} was lost before it answered: {error}"))
}

/// What an answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Events,
    Other,
}

/// An answer whose head is there.
pub(crate) struct Reply {
    line: Arc<Line>,
    place: Arc<Place>,
    head: Parts,
    body: Incoming,
    /// None when the body was read to its end: the connection is kept then.
    wire: Option<Wire>,
}

impl Reply {
    /// Where it came from, after redirects.
    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Whether the file gives this header, and it was sent there.
    pub(crate) fn was_given(&self, header: &str) -> bool {
        self.place.own && self.line.headers.contains_key(header)
    }

    /// Whether it comes from the server that the file names.
    pub(crate) fn is_own(&self) -> bool {
        self.place.own
    }

    /// Who the hub is logged in as where this comes from, or would be.
    pub(crate) fn account(&self) -> Option<&Pass> {
        self.line.account.as_ref().filter(|_| self.place.own)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.head.status
    }

    pub(crate) fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.head.headers.get(name)
    }

    /// Every value of a header, with commas in between.
    pub(crate) fn all(&self, name: &HeaderName) -> String {
        let values = self.head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn media(&self) -> Media {
        let encoded = self.head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
        let media = self.content_type().split(';').next().unwrap_or_default().trim();
        match media {
            _ if encoded => Media::Other,
            _ if media.eq_ignore_ascii_case("application/json") => Media::Json,
            _ if media.eq_ignore_ascii_case("text/event-stream") => Media::Events,
            _ => Media::Other,
        }
    }

    pub(crate) fn content_type(&self) -> &str {
        self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The next piece of the body; none at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        let Some(wire) = &mut self.wire else { return Ok(None) };
        match wire.piece(&mut self.body).await {
            Some(Ok(piece)) => Ok(Some(piece)),
            Some(Err(error)) => {
                self.wire = None;
                let place = shown(&self.place.url);
                Err(ClientError::Lost(format!("the answer of {place} broke off: {error}")))
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
    pub(crate) async fn whole(mut self) -> Result<Bytes, ClientError> {
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

    pub(crate) fn too_long(&self) -> ClientError {
        let (place, limit) = (shown(&self.place.url), self.line.limit);
        ClientError::Protocol(format!("the answer of {place} is longer than {limit} bytes"))
    }

    /// Nothing more of the body is wanted, although it may go on: a stream whose last message was read.
    pub(crate) fn leave(mut self) {
        if let Some(wire) = self.wire.take() {
            self.line.idle.keep(self.place.origin.clone(), wire, Some(self.body));
        }
    }
}
