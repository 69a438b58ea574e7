//! Addresses of requests, and the rules for redirects.

use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use url::{Origin, Position, Url};

use super::HttpError;
use super::network::origin_of;

/// An address that requests are sent to.
#[derive(Clone)]
pub struct Endpoint {
    pub url: Url,
    pub(super) origin: Origin,
    pub(super) uri: Uri,
    pub(super) host: HeaderValue,
    /// Whether it has the configured origin, the only one that gets the configured headers.
    pub(super) is_home: bool,
}

/// Omits path and query, which may contain secrets.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&origin_of(&self.url)).finish()
    }
}

fn protocol_error(message: String) -> HttpError {
    HttpError::Protocol(message)
}

impl Endpoint {
    fn new(url: Url, is_home: bool) -> Result<Self, HttpError> {
        let origin = origin_of(&url);
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme();
            return Err(protocol_error(format!("the scheme `{scheme}` is not supported: use https or http")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let message = "contains a user name or password: set the header `Authorization` instead";
            return Err(protocol_error(format!("the URL of {origin} {message}")));
        }
        let invalid = || protocol_error(format!("the URL of {origin} is not valid in an HTTP request"));
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().map_err(|_| invalid())?;
        let host = url[Position::BeforeHost..Position::AfterPort].parse().map_err(|_| invalid())?;
        Ok(Self { origin: url.origin(), uri, host, is_home, url })
    }

    /// The configured address.
    pub fn home(url: Url) -> Result<Self, HttpError> {
        Self::new(url, true)
    }

    /// An address other than the configured one. It gets none of the configured headers.
    pub fn foreign(url: Url) -> Result<Self, HttpError> {
        Self::new(url, false)
    }

    /// Another address of the same origin.
    pub fn sibling(&self, reference: &str) -> Result<Self, HttpError> {
        let invalid = |error| {
            protocol_error(format!("{} names an address that is invalid: {error}", origin_of(&self.url)))
        };
        let url = self.url.join(reference).map_err(invalid)?;
        if url.origin() != self.origin {
            let (here, there) = (origin_of(&self.url), origin_of(&url));
            return Err(protocol_error(format!(
                "{here} asks for messages to be sent to {there}, which is a different server"
            )));
        }
        Self::new(url, self.is_home)
    }

    /// The target of a redirect; none if the answer is not a redirect. `home` is the configured origin.
    pub(super) fn redirected(
        &self,
        method: &Method,
        status: StatusCode,
        headers: &HeaderMap,
        home: &Origin,
    ) -> Result<Option<Self>, HttpError> {
        let keeps_method = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                method == Method::GET
            }
            _ => return Ok(None),
        };
        let here = origin_of(&self.url);
        let location = headers.get(http::header::LOCATION).and_then(|value| value.to_str().ok());
        let Some(url) = location.and_then(|location| self.url.join(location).ok()) else {
            return Err(protocol_error(format!("{here} answers {status} without a valid `Location`")));
        };
        let there = origin_of(&url);
        if !keeps_method {
            let message =
                "which would turn the request into a GET: put the new address into the server's file";
            return Err(protocol_error(format!("{here} answers {status} and points to {there}, {message}")));
        }
        if self.url.scheme() == "https" && url.scheme() != "https" {
            return Err(protocol_error(format!(
                "{here} redirects to {there}, which is not encrypted; the redirect is not followed"
            )));
        }
        let is_home = url.origin() == *home;
        Self::new(url, is_home).map(Some)
    }
}
