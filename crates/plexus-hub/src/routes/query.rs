//! The parts of a URL: query strings of lists, cursors, path segments.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use plexus_proto::api::Page;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::http::ApiError;

pub(super) const DEFAULT_LIMIT: i64 = 50;
pub(super) const MAX_LIMIT: i64 = 200;
/// Maximum length of a filter text, in characters.
const MAX_TEXT: usize = 256;

/// A query string. A malformed one is refused with the hub's own error envelope.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|e| ApiError::bad_request(e.body_text()))
    }
}

/// The end of an id, in lower case, as ids are stored.
pub(super) fn id_suffix(text: Option<String>) -> Result<Option<String>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let fits = (4..=36).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    match fits {
        true => Ok(Some(text.to_ascii_lowercase())),
        false => Err(ApiError::bad_request("id must be the last 4 to 36 characters of an id")),
    }
}

/// A path segment without control characters, which no name contains.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| ApiError::bad_request("the path is not valid UTF-8"))?;
        if text.contains(char::is_control) {
            return Err(ApiError::bad_request("the path contains control characters"));
        }
        Ok(Self(text))
    }
}

/// `limit` and `cursor` of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Maximum number of items on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(super) limit: Option<i64>,
    /// `next` of the previous page.
    #[param(pattern = "^[A-Za-z0-9_-]+$")]
    pub(super) cursor: Option<String>,
}

pub(super) fn limit(requested: Option<i64>) -> Result<i64, ApiError> {
    match requested.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(ApiError::bad_request(format!("limit must be 1 to {MAX_LIMIT}, not {other}"))),
    }
}

/// The end of a page: the name of the list and a position in it. Clients pass it back unchanged; a made-up cursor, or
/// one of another list, is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor(pub(super) &'static str);

impl Cursor {
    /// The position in the cursor, if one was given.
    pub(super) fn read<T: FromStr>(self, given: Option<&str>) -> Result<Option<T>, ApiError> {
        let position = |text: &str| {
            let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
            let (list, position) = decoded.split_once(' ')?;
            if list == self.0 { position.parse().ok() } else { None }
        };
        given
            .map(|text| {
                position(text).ok_or_else(|| {
                    ApiError::bad_request("the cursor does not belong to this list")
                        .hint("Pass `next` of the previous page unchanged.")
                })
            })
            .transpose()
    }

    /// A page of `items`, which were queried with one more than the limit; `position` returns the position of an item.
    pub(super) fn page<T>(self, mut items: Vec<T>, limit: i64, position: impl Fn(&T) -> String) -> Page<T> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|item| URL_SAFE_NO_PAD.encode(format!("{} {}", self.0, position(item))));
        Page { items, next }
    }
}

/// Validates a filter text.
pub(super) fn text(name: &str, given: Option<String>) -> Result<Option<String>, ApiError> {
    match given {
        Some(text) if text.chars().count() > MAX_TEXT || text.contains(char::is_control) => {
            let message = format!("{name} must have at most {MAX_TEXT} characters and no control character");
            Err(ApiError::bad_request(message))
        }
        given => Ok(given),
    }
}

/// Parses a path segment as an id.
pub(super) fn id<T: FromStr<Err = plexus_proto::InvalidId>>(text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|e: plexus_proto::InvalidId| ApiError::bad_request(e.to_string()))
}
