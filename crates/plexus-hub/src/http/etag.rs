//! Answers that a client may keep: tagged by their content, and not sent again to whoever has them.

use aws_lc_rs::digest;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_kit::hex;
use serde::Serialize;

use super::ApiError;

/// A strong tag: other bytes have another one.
#[derive(Debug, Clone)]
pub(crate) struct Tag(HeaderValue);

impl Tag {
    pub(crate) fn of(body: &[u8]) -> Result<Self, ApiError> {
        let hash = digest::digest(&digest::SHA256, body);
        Self::named(&hex::encode(&hash.as_ref()[..16]))
    }

    /// That of an answer which names its own version.
    pub(crate) fn named(version: &str) -> Result<Self, ApiError> {
        let quoted = format!("\"{version}\"");
        HeaderValue::from_str(&quoted).map(Self).map_err(|e| ApiError::internal("tagging an answer", &e))
    }

    /// Whether the client says that it has this content.
    pub(crate) fn is_known_to(&self, headers: &HeaderMap) -> bool {
        let listed = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        listed.flat_map(|list| list.split(',')).map(str::trim).any(|tag| {
            // `W/` says that the client compares loosely, which a read allows.
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == self.0.as_bytes()
        })
    }
}

/// A body with its tag, or only the tag where the client has the body.
#[derive(Debug)]
pub(crate) struct Tagged {
    tag: Tag,
    body: Option<Bytes>,
    /// Of this caller only, or the same for everyone.
    private: bool,
}

impl Tagged {
    /// What this caller may see, which another may not.
    pub(crate) fn json<T: Serialize>(headers: &HeaderMap, value: &T) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(|e| ApiError::internal("writing an answer", &e))?;
        Ok(Self::private(headers, Tag::of(&body)?, body.into()))
    }

    fn private(headers: &HeaderMap, tag: Tag, body: Bytes) -> Self {
        Self { private: true, ..Self::public(headers, tag, body) }
    }

    /// The same, where the content names its own version.
    pub(crate) fn versioned<T: Serialize>(
        headers: &HeaderMap,
        tag: Tag,
        value: &T,
    ) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(|e| ApiError::internal("writing an answer", &e))?;
        Ok(Self::private(headers, tag, body.into()))
    }

    /// The same for everyone.
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
        // Kept, but never used without asking.
        let kept = if self.private { "private, no-cache" } else { "no-cache" };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
        if self.private {
            headers.insert(VARY, HeaderValue::from_static("authorization"));
        }
        response
    }
}
