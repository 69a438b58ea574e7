//! What stands in a URL: query strings of lists, cursors, parts of the path.

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
/// Longest text that something is looked for by.
const MAX_TEXT: usize = 256;

/// A query string; one that does not fit is refused in our own words.
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

/// A part of the path as text without control characters, which no name has.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|_| ApiError::bad_request("the path is not UTF-8"))?;
        if text.contains(char::is_control) {
            return Err(ApiError::bad_request("the path has control characters in it"));
        }
        Ok(Self(text))
    }
}

/// `limit` and `cursor` of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Items on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(super) limit: Option<i64>,
    /// `next` of the page before.
    #[param(pattern = "^[A-Za-z0-9_-]+$")]
    pub(super) cursor: Option<String>,
}

pub(super) fn limit(asked: Option<i64>) -> Result<i64, ApiError> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(ApiError::bad_request(format!("limit must be 1 to {MAX_LIMIT}, not {other}"))),
    }
}

/// Where a page of a list ended: the name of the list and a place in it. Clients hand it back as it
/// is; one that was made up, or is of another list, is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor(pub(super) &'static str);

impl Cursor {
    /// The place that the cursor names, if one was given.
    pub(super) fn read<T: FromStr>(self, given: Option<&str>) -> Result<Option<T>, ApiError> {
        let place = |text: &str| {
            let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
            let (list, place) = decoded.split_once(' ')?;
            if list == self.0 { place.parse().ok() } else { None }
        };
        given
            .map(|text| {
                place(text).ok_or_else(|| {
                    ApiError::bad_request("the cursor is not one of this list")
                        .hint("Pass `next` of the page before, as it is.")
                })
            })
            .transpose()
    }

    /// A page of items, of which one more than the limit was looked for; `place` is that of an item.
    pub(super) fn page<T>(self, mut items: Vec<T>, limit: i64, place: impl Fn(&T) -> String) -> Page<T> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|item| URL_SAFE_NO_PAD.encode(format!("{} {}", self.0, place(item))));
        Page { items, next }
    }
}

/// A text that something is looked for by.
pub(super) fn text(name: &str, given: Option<String>) -> Result<Option<String>, ApiError> {
    match given {
        Some(text) if text.chars().count() > MAX_TEXT || text.contains(char::is_control) => {
            let message =
                format!("{name} has at most {MAX_TEXT} characters, none of them a control character");
            Err(ApiError::bad_request(message))
        }
        given => Ok(given),
    }
}

/// A part of the path that should be one of our ids.
pub(super) fn id<T: FromStr<Err = plexus_proto::InvalidId>>(text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|e: plexus_proto::InvalidId| ApiError::bad_request(e.to_string()))
}
