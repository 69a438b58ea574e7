//! Reading a request's body: so much, and not for longer than that.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use plexus_kit::config::Limits;
use plexus_proto::ErrorCode;
use serde::de::DeserializeOwned;

use super::{ApiError, Caller};

impl Caller {
    /// The whole body within the limits, if the caller is still welcome when it has arrived.
    pub(crate) async fn read_body(&self, body: Body) -> Result<Bytes, ApiError> {
        let limits = self.services.config.load().limits;
        let body = tokio::select! {
            // A body that is there is taken, also by a hub that is stopping.
            biased;
            body = read(body, limits) => body?,
            () = self.services.draining.cancelled() => {
                let message = "the hub is stopping";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message));
            }
        };
        self.services.authenticator.check(&self.principal)?;
        Ok(body)
    }

    /// The body as JSON; one that is empty has only defaults in it. `what` it should be is for the error.
    pub(crate) async fn read_params<T: DeserializeOwned + Default>(
        &self,
        body: Body,
        what: &str,
    ) -> Result<T, ApiError> {
        let body = self.read_body(body).await?;
        if body.is_empty() {
            return Ok(T::default());
        }
        serde_json::from_slice(&body)
            .map_err(|error| ApiError::bad_request(format!("the body does not describe {what}: {error}")))
    }
}

async fn read(body: Body, limits: Limits) -> Result<Bytes, ApiError> {
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
