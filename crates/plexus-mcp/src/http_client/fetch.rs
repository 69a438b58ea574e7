//! Files of the network that a caller names by URL, fetched under the rules for servers.
//!
//! Whoever names the URL may be anybody, so it leads to less than a server's file does: to no private network and not to
//! this machine, unless that was allowed. A name is looked up once and what was checked is connected to, also after each
//! redirect. Nothing is sent that says who asks: no cookies, no credentials, no referrer. No proxy is used.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use url::Url;

use super::connection::{HttpConnection, Outbound};
use super::endpoint::Endpoint;
use super::line::{AGENT, MAX_REDIRECTS};
use super::network::{Network, Unreached, shown};

/// Why a file was not fetched. Of a URL no more is told than its server: the rest may be as good as a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is not one that can be asked for.
    #[error("{0}")]
    Url(String),
    /// It leads to where nothing is asked.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("{place} answers {status}")]
    Status { place: String, status: StatusCode },
    #[error("what {place} sends is longer than {limit} bytes")]
    TooLong { place: String, limit: usize },
    #[error("{place} did not send all of it within {} s", patience.as_secs_f32())]
    TooSlow { place: String, patience: Duration },
}

/// Fetches for callers. It keeps no connections.
pub struct Fetcher {
    /// For the open internet only.
    open: Network,
    /// For private networks too.
    inner: Network,
    /// For all of it, redirects included.
    patience: Duration,
    /// Bytes of a file.
    limit: usize,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// `remedy`: what a person does to allow private networks, such as "set …".
    #[must_use]
    pub fn new(patience: Duration, limit: usize, remedy: &'static str) -> Self {
        let network = |inner| Network::for_anyone(inner, remedy, patience);
        Self { open: network(false), inner: network(true), patience, limit }
    }

    /// The file at a URL; `inner`: also from private networks and this machine. `accept` is what the server is told that
    /// is wanted; what it sends may be anything.
    pub async fn get(&self, url: &str, inner: bool, accept: &'static str) -> Result<Bytes, FetchError> {
        let url = Url::parse(url).map_err(|error| FetchError::Url(format!("it is no URL: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            let message = format!("the URL of {} has a user name or password in it", shown(&url));
            return Err(FetchError::Url(message));
        }
        let place = shown(&url);
        let network = if inner { &self.inner } else { &self.open };
        let fetched = tokio::time::timeout(self.patience, self.follow(network, url, accept));
        fetched.await.unwrap_or_else(|_| Err(FetchError::TooSlow { place, patience: self.patience }))
    }

    async fn follow(&self, network: &Network, url: Url, accept: &'static str) -> Result<Bytes, FetchError> {
        let (home, first) = (url.origin(), shown(&url));
        let mut place = Endpoint::elsewhere(url).map_err(|error| FetchError::Url(error.to_string()))?;
        for _ in 0..=MAX_REDIRECTS {
            let io = network.dial(&place.url).await.map_err(|why| match why {
                Unreached::Refused(why) => FetchError::Refused(why),
                Unreached::Failed(why) => FetchError::Failed(why),
            })?;
            let broken = |error: hyper::Error| {
                FetchError::Failed(format!("{} does not answer: {error}", shown(&place.url)))
            };
            let mut wire = HttpConnection::open(io).await.map_err(broken)?;
            let sent = wire.send(request(&place, accept)).await;
            let (head, mut body) = sent.map_err(|unsent| broken(unsent.error))?.into_parts();
            let redirected = place.redirected(&Method::GET, head.status, &head.headers, &home);
            match redirected.map_err(|error| FetchError::Refused(error.to_string()))? {
                Some(next) => place = next,
                None if !head.status.is_success() => {
                    return Err(FetchError::Status { place: shown(&place.url), status: head.status });
                }
                None => {
                    let announced =
                        head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
                    return self.whole(&place, &mut wire, &mut body, announced.unwrap_or_default()).await;
                }
            }
        }
        Err(FetchError::Failed(format!("{first} redirects more than {MAX_REDIRECTS} times in a row")))
    }

    async fn whole(
        &self,
        place: &Endpoint,
        wire: &mut HttpConnection,
        body: &mut hyper::body::Incoming,
        announced: usize,
    ) -> Result<Bytes, FetchError> {
        let too_long = || FetchError::TooLong { place: shown(&place.url), limit: self.limit };
        if announced > self.limit {
            return Err(too_long());
        }
        // Not as much as is announced: that costs who announces it nothing.
        let mut whole = BytesMut::new();
        while let Some(piece) = wire.piece(body).await {
            let piece = piece.map_err(|error| {
                FetchError::Failed(format!("the answer of {} broke off: {error}", shown(&place.url)))
            })?;
            if whole.len() + piece.len() > self.limit {
                return Err(too_long());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }
}

fn request(place: &Endpoint, accept: &'static str) -> Outbound {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = place.uri.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, place.host.clone());
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    request
}

#[cfg(test)]
mod tests;
