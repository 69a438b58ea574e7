//! Query strings of lists.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::ApiError;

pub(super) const DEFAULT_LIMIT: i64 = 50;
pub(super) const MAX_LIMIT: i64 = 200;

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

/// A part of the path as text.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(text)| Self(text)).map_err(|_| ApiError::bad_request("the path is not UTF-8"))
    }
}

/// `limit` and `cursor` of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageParams {
    pub(super) limit: Option<i64>,
    pub(super) cursor: Option<String>,
}

pub(super) fn limit(asked: Option<i64>) -> Result<i64, ApiError> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(ApiError::bad_request(format!("limit must be 1 to {MAX_LIMIT}, not {other}"))),
    }
}

pub(super) fn cursor<T: FromStr>(asked: Option<&str>) -> Result<Option<T>, ApiError> {
    asked
        .map(|text| text.parse().map_err(|_| ApiError::bad_request("the cursor is not one of this list")))
        .transpose()
}

/// A part of the path that should be one of our ids.
pub(super) fn id<T: FromStr<Err = plexus_proto::InvalidId>>(text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|e: plexus_proto::InvalidId| ApiError::bad_request(e.to_string()))
}
