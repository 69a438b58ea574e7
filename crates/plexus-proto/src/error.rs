//! The one error vocabulary: a stable code for programs, words for people.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Stable, machine-readable reason of a failure. Text around it may change; these may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is malformed: bad JSON, bad header, bad parameter.
    InvalidRequest,
    /// No credential, or one that is malformed, expired, revoked or not ours.
    Unauthenticated,
    /// A valid credential that does not reach this far.
    Forbidden,
    /// The thing does not exist, or the caller may not know that it does.
    NotFound,
    /// There is no tool of that name, or the caller may not know that there is.
    UnknownTool,
    /// Arguments do not fit the tool's schema, and nothing ran; or the server behind the tool does not accept them.
    InvalidArguments,
    /// The key was used before with another tool or other arguments.
    IdempotencyConflict,
    /// The state of the thing does not allow it.
    Conflict,
    /// Too many calls at once, or a queue is full; nothing ran, try again.
    Overloaded,
    /// Request body, header or nesting over the limit.
    TooLarge,
    /// The deadline passed.
    DeadlineExceeded,
    /// The caller cancelled.
    Cancelled,
    /// The tool ran, and who ran it is gone: it may have done a part of its work.
    Interrupted,
    /// The tool ran and failed.
    ToolFailed,
    /// The hub is starting or stopping, or its database is away.
    Unavailable,
    /// A fault of ours; the log has the details under the request id.
    Internal,
}

impl ErrorCode {
    /// Whether the same request may succeed later without a change.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Overloaded | Self::Unavailable | Self::DeadlineExceeded)
    }

    /// The code as it stands in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::UnknownTool => "unknown_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::Conflict => "conflict",
            Self::Overloaded => "overloaded",
            Self::TooLarge => "too_large",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::ToolFailed => "tool_failed",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }
}

/// Body of every REST error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorEnvelope {
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
    /// More for a program, where the code alone does not say enough.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Also in the response header `x-request-id` and in the hub's log.
    pub request_id: String,
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn code_text_is_the_json_text() {
        for code in [ErrorCode::InvalidArguments, ErrorCode::DeadlineExceeded, ErrorCode::Internal] {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
