//! Fetches files from URLs that a caller chooses, under the address rules for servers.
//!
//! Callers are untrusted, so private networks and this machine are out of reach unless explicitly allowed. A name is
//! looked up once, and the checked address is the one connected to, also after each redirect. Requests carry no
//! cookies, credentials or referrer. No proxy is used.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use url::Url;

use super::client::{MAX_REDIRECTS, USER_AGENT_VALUE};
use super::connection::{HttpConnection, Outbound};
use super::endpoint::Endpoint;
use super::network::{DialError, Network, origin_of};

/// Why a file was not fetched. Names only the URL's origin, because the rest may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL is invalid.
    #[error("{0}")]
    Url(String),
    /// The address rules do not allow the connection.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error("{origin} answers {status}")]
    Status { origin: String, status: StatusCode },
    #[error("the file at {origin} is longer than {limit} bytes")]
    TooLong { origin: String, limit: usize },
    #[error("{origin} did not send the whole file within {} s", timeout.as_secs_f32())]
    TooSlow { origin: String, timeout: Duration },
}

/// Fetches files, over a new connection each.
pub struct Fetcher {
    /// Reaches the public internet only.
    public: Network,
    /// Reaches private networks too.
    private: Network,
    /// Time limit of a fetch, including redirects.
    timeout: Duration,
    /// Size limit of a file, in bytes.
    limit: usize,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// `remedy` says how to allow private networks, such as "set …".
    #[must_use]
    pub fn new(timeout: Duration, limit: usize, remedy: &'static str) -> Self {
        let network = |private| Network::for_any_url(private, remedy, timeout);
        Self { public: network(false), private: network(true), timeout, limit }
    }

    /// Fetches the file at a URL. `private` also allows private networks and this machine. `accept` is sent to the
    /// server, which may ignore it.
    pub async fn get(&self, url: &str, private: bool, accept: &'static str) -> Result<Bytes, FetchError> {
        let url =
            Url::parse(url).map_err(|error| FetchError::Url(format!("it is not a valid URL: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            let message = format!("the URL of {} contains a user name or password", origin_of(&url));
            return Err(FetchError::Url(message));
        }
        let origin = origin_of(&url);
        let network = if private { &self.private } else { &self.public };
        let fetched = tokio::time::timeout(self.timeout, self.follow(network, url, accept));
        fetched.await.unwrap_or_else(|_| Err(FetchError::TooSlow { origin, timeout: self.timeout }))
    }

    async fn follow(&self, network: &Network, url: Url, accept: &'static str) -> Result<Bytes, FetchError> {
        let (home, first) = (url.origin(), origin_of(&url));
        let mut endpoint = Endpoint::foreign(url).map_err(|error| FetchError::Url(error.to_string()))?;
        for _ in 0..=MAX_REDIRECTS {
            let io = network.dial(&endpoint.url).await.map_err(|error| match error {
                DialError::Refused(why) => FetchError::Refused(why),
                DialError::Failed(why) => FetchError::Failed(why),
            })?;
            let broken = |error: hyper::Error| {
                FetchError::Failed(format!("{} does not answer: {error}", origin_of(&endpoint.url)))
            };
            let mut connection = HttpConnection::open(io).await.map_err(broken)?;
            let sent = connection.send(request(&endpoint, accept)).await;
            let (head, mut body) = sent.map_err(|failed| broken(failed.error))?.into_parts();
            let redirected = endpoint.redirected(&Method::GET, head.status, &head.headers, &home);
            match redirected.map_err(|error| FetchError::Refused(error.to_string()))? {
                Some(next) => endpoint = next,
                None if !head.status.is_success() => {
                    return Err(FetchError::Status { origin: origin_of(&endpoint.url), status: head.status });
                }
                None => {
                    let announced =
                        head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
                    return self
                        .read_body(&endpoint, &mut connection, &mut body, announced.unwrap_or_default())
                        .await;
                }
            }
        }
        Err(FetchError::Failed(format!("{first} redirects more than {MAX_REDIRECTS} times in a row")))
    }

    async fn read_body(
        &self,
        endpoint: &Endpoint,
        connection: &mut HttpConnection,
        body: &mut hyper::body::Incoming,
        announced: usize,
    ) -> Result<Bytes, FetchError> {
        let too_long = || FetchError::TooLong { origin: origin_of(&endpoint.url), limit: self.limit };
        if announced > self.limit {
            return Err(too_long());
        }
        // Not preallocated: announcing a large size costs the server nothing.
        let mut bytes = BytesMut::new();
        while let Some(piece) = connection.piece(body).await {
            let piece = piece.map_err(|error| {
                FetchError::Failed(format!("the answer of {} broke off: {error}", origin_of(&endpoint.url)))
            })?;
            if bytes.len() + piece.len() > self.limit {
                return Err(too_long());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }
}

fn request(endpoint: &Endpoint, accept: &'static str) -> Outbound {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = endpoint.uri.clone();
    let headers = request.headers_mut();
    headers.insert(HOST, endpoint.host.clone());
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    request
}

#[cfg(test)]
mod tests;
