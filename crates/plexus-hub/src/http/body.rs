//! Reading a request's body: so much, and not for longer than that.

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
    /// The whole body within the limits, of which `most` may be a narrower one.
    pub(crate) async fn read_body(
        &self,
        headers: &HeaderMap,
        body: Body,
        most: usize,
    ) -> Result<Bytes, ApiError> {
        let mut limits = self.config.load().limits;
        limits.body_bytes = limits.body_bytes.min(most);
        // Who asks before sending is told at once; who does not is read until it is too much, because an
        // answer that comes while a client still sends is lost to many.
        if headers.contains_key(EXPECT) && body.size_hint().lower() > limits.body_bytes as u64 {
            return Err(too_large(limits.body_bytes));
        }
        tokio::select! {
            // A body that is there is taken, also by a hub that is stopping.
            biased;
            body = read(body, limits) => body,
            () = self.draining.cancelled() => {
                let message = "the hub is stopping";
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message))
            }
        }
    }

    /// The body as JSON of this form; `what` names the form in a refusal.
    pub(crate) async fn read_json<T: DeserializeOwned>(
        &self,
        request: Request,
        what: &str,
        most: usize,
    ) -> Result<T, ApiError> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let message = "the body must be JSON, and say so with `Content-Type: application/json`";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ApiError::new(status, ErrorCode::InvalidRequest, message));
        }
        let body = self.read_body(&parts.headers, body, most).await?;
        // The parser would take a list of its fields too, which is in no description.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::bad_request(format!("the body is not {what}: a JSON object was expected")));
        }
        serde_json::from_slice(&body).map_err(|e| {
            ApiError::bad_request(format!("the body is not {what}: {}", in_json(&e.to_string())))
        })
    }
}

impl Caller {
    /// The whole body within the limits, if the caller is still welcome when it has arrived.
    pub(crate) async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
        let body = self.services.read_body(headers, body, usize::MAX).await?;
        self.services.authenticator.check(&self.principal)?;
        Ok(body)
    }

    /// The body as JSON of this form, if the caller is still welcome when it has arrived.
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

/// What a parser says, in words of JSON: the names of our types mean nothing to others.
fn in_json(said: &str) -> String {
    match said.split_once("expected struct ") {
        Some((before, rest)) => {
            let behind = rest.find(' ').map_or("", |end| &rest[end..]);
            format!("{before}expected an object{behind}")
        }
        None => said.to_owned(),
    }
}

/// Whether one content type is given and it is that of JSON, whatever its parameters.
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
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {} s", time.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::DeadlineExceeded, message))
        }
    }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body has more than {limit} bytes, the most allowed");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge, message)
}
