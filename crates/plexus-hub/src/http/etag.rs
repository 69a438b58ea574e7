//! Cacheable responses: tagged by their content, and not sent again to clients that have it.

use aws_lc_rs::digest;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_kit::hex;
use serde::Serialize;

use super::ApiError;

/// A strong entity tag: different bytes have different tags.
#[derive(Debug, Clone)]
pub(crate) struct Tag(HeaderValue);

impl Tag {
    pub(crate) fn of(body: &[u8]) -> Result<Self, ApiError> {
        let hash = digest::digest(&digest::SHA256, body);
        Self::named(&hex::encode(&hash.as_ref()[..16]))
    }

    /// The tag of a response that contains its own version.
    pub(crate) fn named(version: &str) -> Result<Self, ApiError> {
        let quoted = format!("\"{version}\"");
        HeaderValue::from_str(&quoted).map(Self).map_err(|e| ApiError::internal("tagging the answer", &e))
    }

    /// Whether the client already has this content.
    pub(crate) fn is_known_to(&self, headers: &HeaderMap) -> bool {
        let listed = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        listed.flat_map(|list| list.split(',')).map(str::trim).any(|tag| {
            // `W/` asks for a weak comparison, which is allowed for reads.
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == self.0.as_bytes()
        })
    }
}

/// A body with its tag, or only the tag if the client has the body.
#[derive(Debug)]
pub(crate) struct Tagged {
    tag: Tag,
    body: Option<Bytes>,
    /// Whether the body is specific to this caller.
    private: bool,
}

impl Tagged {
    /// A response that only this caller may see.
    pub(crate) fn json<T: Serialize>(headers: &HeaderMap, value: &T) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(|e| ApiError::internal("writing the answer", &e))?;
        Ok(Self::private(headers, Tag::of(&body)?, body.into()))
    }

    fn private(headers: &HeaderMap, tag: Tag, body: Bytes) -> Self {
        Self { private: true, ..Self::public(headers, tag, body) }
    }

    /// The same, for content that contains its own version.
    pub(crate) fn versioned<T: Serialize>(
        headers: &HeaderMap,
        tag: Tag,
        value: &T,
    ) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(|e| ApiError::internal("writing the answer", &e))?;
        Ok(Self::private(headers, tag, body.into()))
    }

    /// A response that is the same for all callers.
    pub(crate) fn public(headers: &HeaderMap, tag: Tag, body: Bytes) -> Self {
        let body = (!tag.is_known_to(headers)).then_some(body);
        Self { tag, body, private: false }
    }
}

impl IntoResponse for Tagged {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Some(body) => {
                let json = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
                ([json], body).into_response()
            }
            None => StatusCode::NOT_MODIFIED.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(ETAG, self.tag.0);
        // Clients may store it, but must revalidate before each use.
        let cache_control = if self.private { "private, no-cache" } else { "no-cache" };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
        if self.private {
            headers.insert(VARY, HeaderValue::from_static("authorization"));
        }
        response
    }
}
