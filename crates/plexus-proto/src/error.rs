//! The error vocabulary: stable codes for programs, text for people.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Stable, machine-readable reason of a failure. The accompanying text may change; the codes may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is malformed: bad JSON, bad header, bad parameter.
    InvalidRequest,
    /// No credential, or one that is malformed, expired, revoked or not issued by this hub.
    Unauthenticated,
    /// The credential is valid but lacks the permission.
    Forbidden,
    /// The resource does not exist, or the caller may not know that it exists.
    NotFound,
    /// No tool has this name, or the caller may not know that it exists.
    UnknownTool,
    /// The arguments do not match the tool's schema, and nothing ran; or the server behind the tool rejected
    /// them.
    InvalidArguments,
    /// The idempotency key was already used with another tool or other arguments.
    IdempotencyConflict,
    /// The current state of the resource does not allow the operation.
    Conflict,
    /// Too many concurrent calls, or a queue is full; nothing ran, so retry later.
    Overloaded,
    /// Request body, header or nesting exceeds the limit.
    TooLarge,
    /// The deadline passed.
    DeadlineExceeded,
    /// The caller cancelled.
    Cancelled,
    /// The process that ran the tool ended: the tool may have done part of its work.
    Interrupted,
    /// The tool ran and failed.
    ToolFailed,
    /// The hub is starting or stopping, or its database is unavailable.
    Unavailable,
    /// A bug in Plexus; the log has the details under the request id.
    Internal,
}

impl ErrorCode {
    /// Whether the same request may succeed later without a change.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Overloaded | Self::Unavailable | Self::DeadlineExceeded)
    }

    /// The code as written in JSON.
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
    /// What happened, and to what.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
    /// Additional data for programs, if the code is not specific enough.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Also in the response header `x-request-id` and in the hub's log.
    pub request_id: String,
}

#[cfg(test)]
mod tests;
