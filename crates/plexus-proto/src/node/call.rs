//! Frames about calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{CallId, ErrorCode, SessionId};

/// The hub wants a tool to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    pub call_id: CallId,
    pub tool: String,
    /// An object.
    pub arguments: Box<RawValue>,
    pub session_id: SessionId,
    pub caller: Caller,
    /// Time that is left for it.
    pub deadline_ms: u64,
    /// The node keeps it on disk until its result was confirmed. Others are gone with whoever runs them.
    pub keep: bool,
    /// That of the caller, for tools that pass it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// Who calls, as the hub knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Such as `agent:codex`.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// A call is to be stopped, with all that it has started.
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

/// Something that a call tells while it runs. May be left out where the link is slow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallEvent {
    pub call_id: CallId,
    /// 1, 2, 3 … for each call; a gap was left out.
    pub seq: u64,
    /// A kind of session event, such as `terminal_output`, or `progress`.
    pub kind: String,
    /// An object.
    pub payload: Box<RawValue>,
}

/// How a call ended. A kept one is sent again until it is confirmed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallResult {
    pub call_id: CallId,
    pub outcome: CallOutcome,
}

/// Exactly one of these.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// By a tool of ours.
    Output(Output),
    /// By another MCP server.
    Foreign(Foreign),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

/// The parts of another server's result, as they came.
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
    /// It is certain that the tool did nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_ran: bool,
}

/// Of a node: the call is accepted. Of the hub: the result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub call_id: CallId,
}
