//! Reading request bodies within limits of size and time.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use plexus_kit::config::Limits;
use plexus_proto::ErrorCode;
use serde::de::DeserializeOwned;

use super::{ApiError, Caller};
use crate::services::Services;

impl Services {
    /// Reads the whole body within the limits; `most` may lower the size limit.
    pub(crate) async fn read_body(
        &self,
        headers: &HeaderMap,
        body: Body,
        most: usize,
    ) -> Result<Bytes, ApiError> {
        let mut limits = self.config.load().limits;
        limits.body_bytes = limits.body_bytes.min(most);
        // A client that sends `Expect: 100-continue` is refused before it sends. Any other is read up to the limit,
        // because many clients lose an answer that arrives while they are still sending.
        if headers.contains_key(EXPECT) && body.size_hint().lower() > limits.body_bytes as u64 {
            return Err(too_large(limits.body_bytes));
        }
        tokio::select! {
            // A body that has arrived is accepted even if the hub is stopping.
            biased;
            body = read(body, limits) => body,
            () = self.draining.cancelled() => {
                let message = "the hub is stopping";
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message))
            }
        }
    }

    /// Parses the body as a JSON object; `what` names the expected content in errors.
    pub(crate) async fn read_json<T: DeserializeOwned>(
        &self,
        request: Request,
        what: &str,
        most: usize,
    ) -> Result<T, ApiError> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let message = "the body must be JSON with `Content-Type: application/json`";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ApiError::new(status, ErrorCode::InvalidRequest, message));
        }
        let body = self.read_body(&parts.headers, body, most).await?;
        // The parser would also accept an array of the fields, which the API description does not allow.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::bad_request(format!("the body is not {what}: a JSON object was expected")));
        }
        serde_json::from_slice(&body).map_err(|e| {
            ApiError::bad_request(format!("the body is not {what}: {}", with_json_terms(&e.to_string())))
        })
    }
}

impl Caller {
    /// Reads the whole body, and checks afterwards that the caller's token is still valid.
    pub(crate) async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
        let body = self.services.read_body(headers, body, usize::MAX).await?;
        self.services.authenticator.check(&self.principal)?;
        Ok(body)
    }

    /// Parses the body as JSON, and checks after reading it that the caller's token is still valid.
    pub(crate) async fn read_json<T: DeserializeOwned>(
        &self,
        request: Request,
        what: &str,
    ) -> Result<T, ApiError> {
        let read = self.services.read_json(request, what, usize::MAX).await;
        self.services.authenticator.check(&self.principal)?;
        read
    }
}

/// A parser error without the names of Rust types, which mean nothing to API clients.
fn with_json_terms(message: &str) -> String {
    match message.split_once("expected struct ") {
        Some((before, rest)) => {
            let behind = rest.find(' ').map_or("", |end| &rest[end..]);
            format!("{before}expected an object{behind}")
        }
        None => message.to_owned(),
    }
}

/// Whether there is exactly one content type and it is JSON, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (given, more) = (types.next().and_then(|value| value.to_str().ok()), types.next());
    let essence = given.map(|given| given.split(';').next().unwrap_or_default().trim());
    more.is_none() && essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

async fn read(body: Body, limits: Limits) -> Result<Bytes, ApiError> {
    let limit = limits.body_bytes;
    let time = Duration::from_secs(limits.request_seconds);
    let collected = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Ok(Err(error)) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {} s", time.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::DeadlineExceeded, message))
        }
    }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body exceeds the limit of {limit} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge, message)
}
