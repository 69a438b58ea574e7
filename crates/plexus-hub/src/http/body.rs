//! Reading a request's body: so much, and not for longer than that.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use plexus_kit::config::Limits;
use plexus_proto::ErrorCode;

use super::ApiError;

/// The whole body within the limits.
pub(crate) async fn read_body(body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let limit = limits.body_bytes;
    let time = Duration::from_secs(limits.request_seconds);
    let collected = tokio::time::timeout(time, Limited::new(body, limit).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body has more than {limit} bytes, the most allowed");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge, message))
        }
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {} s", time.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::DeadlineExceeded, message))
        }
    }
}
