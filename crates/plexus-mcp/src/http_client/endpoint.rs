//! Where requests go, and where a redirect may send them.

use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, Uri};
use url::{Origin, Position, Url};

use super::HttpError;
use super::network::shown;

/// An address that requests are sent to.
#[derive(Clone)]
pub struct Endpoint {
    pub url: Url,
    pub(super) origin: Origin,
    pub(super) uri: Uri,
    pub(super) host: HeaderValue,
    /// Of the origin that the file names: the file's headers are for it and for nobody else.
    pub(super) own: bool,
}

/// Without its path and query, which may be as good as a password.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&shown(&self.url)).finish()
    }
}

fn wrong(message: String) -> HttpError {
    HttpError::Protocol(message)
}

impl Endpoint {
    fn new(url: Url, own: bool) -> Result<Self, HttpError> {
        let place = shown(&url);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("`{}` is no scheme to ask with: use https or http", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let message = "has a user name or password in it: set the header `Authorization` instead";
            return Err(wrong(format!("the URL of {place} {message}")));
        }
        let unusable = || wrong(format!("the URL of {place} cannot be asked for"));
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().map_err(|_| unusable())?;
        let host = url[Position::BeforeHost..Position::AfterPort].parse().map_err(|_| unusable())?;
        Ok(Self { origin: url.origin(), uri, host, own, url })
    }

    /// The address that everything is for.
    pub fn own(url: Url) -> Result<Self, HttpError> {
        Self::new(url, true)
    }

    /// An address that the file does not name: none of its headers go there.
    pub fn elsewhere(url: Url) -> Result<Self, HttpError> {
        Self::new(url, false)
    }

    /// Another address of the same origin.
    pub fn sibling(&self, reference: &str) -> Result<Self, HttpError> {
        let url = self
            .url
            .join(reference)
            .map_err(|error| wrong(format!("{} names an address that is none: {error}", shown(&self.url))))?;
        if url.origin() != self.origin {
            let (here, there) = (shown(&self.url), shown(&url));
            return Err(wrong(format!(
                "{here} wants messages sent to {there}, which is not the same server"
            )));
        }
        Self::new(url, self.own)
    }

    /// Where an answer sends a request instead; none where it is an answer like any other. `home` is the origin that
    /// the file names.
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
        let here = shown(&self.url);
        let location = headers.get(http::header::LOCATION).and_then(|value| value.to_str().ok());
        let Some(url) = location.and_then(|location| self.url.join(location).ok()) else {
            return Err(wrong(format!("{here} answers {status} and does not say where to go")));
        };
        let there = shown(&url);
        if !keeps_method {
            let message =
                "which would turn the request into another one: put the new address into the server's file";
            return Err(wrong(format!("{here} answers {status} and points to {there}, {message}")));
        }
        if self.url.scheme() == "https" && url.scheme() != "https" {
            return Err(wrong(format!(
                "{here} points to {there}, which is not encrypted, and is not followed"
            )));
        }
        let own = url.origin() == *home;
        Self::new(url, own).map(Some)
    }
}
