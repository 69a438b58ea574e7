//! Error responses of the REST API, all with the same envelope.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use plexus_auth::AuthError;
use plexus_proto::{ErrorCode, ErrorEnvelope};
use plexus_store::StoreError;
use plexus_tools::CallError;
use serde_json::Value;

use super::observe::RequestId;

/// An error response; [`finish`] adds the request id and the body.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) details: Value,
    pub(crate) challenge: Option<HeaderValue>,
    /// Seconds until a retry can succeed, if known.
    pub(crate) retry_after: Option<u64>,
    /// Logged, but not sent to the caller.
    cause: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
            challenge: None,
            retry_after: None,
            cause: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, message)
    }

    /// A session that does not exist or that the caller must not know of.
    pub(crate) fn no_session() -> Self {
        Self::not_found("there is no such session").hint("`plexus sessions list` shows the existing ones.")
    }

    /// The caller's token lacks a scope.
    pub(crate) fn lacks(scope: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, format!("your token lacks the scope {scope}"))
            .hint("Ask an admin for a token that has it: `plexus token create --scope …`.")
    }

    /// An internal error: the cause is logged and not sent to the caller.
    pub(crate) fn internal(doing: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let message = format!("internal error: {doing} failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, message)
            .hint("The hub's log has the details under this request id.")
            .caused_by(error)
    }

    fn caused_by(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            cause.push_str(&format!(": {deeper}"));
            source = deeper.source();
        }
        self.cause = Some(cause);
        self
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            let (message, hint) = match error {
                StoreError::Uncertain { .. } => (
                    "the hub lost the connection to its database before the outcome was known",
                    "The change may have been stored. Check before you retry; an idempotency key, an external_id or \
                    expected_seq makes a retry safe.",
                ),
                _ => ("the hub could not reach its database", "Nothing was changed. Try again."),
            };
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message)
                .hint(hint)
                .caused_by(&error);
        }
        Self::internal("reading the database", &error)
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Forbidden(message) => Self::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, message),
            AuthError::Invalid(message) => Self::bad_request(message),
            AuthError::NotRenewable(message) => Self::new(
                StatusCode::FORBIDDEN,
                ErrorCode::Forbidden,
                message,
            )
            .hint("Ask for a new one: `plexus token create`, with --renew-for where it should be renewable."),
            AuthError::Conflict { message, hint } => {
                Self::new(StatusCode::CONFLICT, ErrorCode::Conflict, message).hint(hint)
            }
            AuthError::InvalidToken | AuthError::Expired | AuthError::Revoked | AuthError::KeyRetired => {
                Self::new(StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, error.to_string())
            }
            AuthError::NotAdmitted(message) => {
                Self::new(StatusCode::UNAUTHORIZED, ErrorCode::Unauthenticated, message)
                    .hint("Ask for an invitation: `plexus node invite NAME` on the hub's machine.")
            }
            AuthError::Store(error) => error.into(),
            AuthError::Key { .. } | AuthError::DamagedKey(_) | AuthError::DamagedSealingKey(_) => {
                Self::internal("signing", &error)
            }
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let status = match error.code {
            ErrorCode::UnknownTool | ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::InvalidArguments | ErrorCode::InvalidRequest => StatusCode::BAD_REQUEST,
            ErrorCode::IdempotencyConflict | ErrorCode::Conflict => StatusCode::CONFLICT,
            ErrorCode::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorCode::Forbidden => StatusCode::FORBIDDEN,
            ErrorCode::Cancelled | ErrorCode::Interrupted | ErrorCode::ToolFailed | ErrorCode::Internal => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Self { hint: error.hint, details: error.details, ..Self::new(status, error.code, error.message) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Renders error bodies, and adds the request id to every response.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let request_id = id.unwrap_or_default();
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        match &error.cause {
            Some(cause) => tracing::error!(?cause, "{}", error.message),
            None => tracing::debug!(code = error.code.as_str(), reason = ?error.message, "refused"),
        }
        render(&mut response, error, &request_id);
    }
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

fn render(response: &mut Response, error: ApiError, request_id: &str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(challenge) = error.challenge {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if error.code.is_retryable() {
        headers.insert(RETRY_AFTER, HeaderValue::from(error.retry_after.unwrap_or(1)));
    }
    let envelope = ErrorEnvelope {
        code: error.code,
        message: error.message,
        hint: error.hint,
        details: error.details,
        request_id: request_id.to_owned(),
    };
    *response.body_mut() = serde_json::to_vec(&envelope).unwrap_or_default().into();
}

#[cfg(test)]
mod tests;
