//! Frames about calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{CallId, ErrorCode, SessionId};

/// Asks the node to run a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    pub call_id: CallId,
    pub tool: String,
    /// A JSON object.
    pub arguments: Box<RawValue>,
    pub session_id: SessionId,
    pub caller: Caller,
    /// Remaining time in milliseconds.
    pub deadline_ms: u64,
    /// Whether the node stores the call on disk until its result is confirmed. Other calls are lost if the
    /// process that runs them ends.
    pub keep: bool,
    /// The caller's idempotency key, for tools that forward it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The caller, as known to the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Such as `agent:codex`.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Stops a call and everything it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub call_id: CallId,
    pub reason: CancelReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    Caller,
    Deadline,
}

/// Progress of a running call. May be dropped on a slow link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallEvent {
    pub call_id: CallId,
    /// Counts from 1 for each call; a gap means that events were dropped.
    pub seq: u64,
    /// A kind of session event, such as `terminal_output`, or `progress`.
    pub kind: String,
    /// A JSON object.
    pub payload: Box<RawValue>,
}

/// The outcome of a call. A stored outcome is resent until it is confirmed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallResult {
    pub call_id: CallId,
    pub outcome: CallOutcome,
}

/// Exactly one of these variants.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// Result of a native tool.
    Output(Output),
    /// Result of a third-party MCP server.
    Foreign(Foreign),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

/// The parts of a third-party server's result, unmodified.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Foreign {
    /// An array of content blocks.
    pub content: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// It is certain that the tool had no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_ran: bool,
}

/// From a node: the call is accepted. From the hub: the result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub call_id: CallId,
}
