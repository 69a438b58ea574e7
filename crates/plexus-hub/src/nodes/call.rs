//! A call to a machine, and the ways it can end.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use plexus_proto::node::{self, CallEvent, CallOutcome, Failure, Frame};
use plexus_proto::{CallId, ErrorCode, NodeId};
use plexus_tools::CallError;
use serde_json::Value;
use tokio::time::Instant;

const REVOKED: &str = "the token of the call was revoked while the call waited for its node";

/// A call that a machine must run.
#[derive(Clone)]
pub(crate) struct OutgoingCall {
    /// Its time limit starts when it is first sent.
    pub(crate) call: node::Call,
    /// Whether it waits for an absent machine instead of being refused.
    pub(crate) queue: bool,
    /// Called when it is first sent. Must not block.
    pub(crate) on_sent: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl OutgoingCall {
    /// Approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        self.call.arguments.get().len() + self.call.tool.len()
    }

    /// The frame that sends it, with the time left until the deadline.
    pub(super) fn frame(&self, deadline: Instant) -> Frame {
        let left = deadline.saturating_duration_since(Instant::now());
        let deadline_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Frame::Call(node::Call { deadline_ms, ..self.call.clone() })
    }
}

impl fmt::Debug for OutgoingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingCall")
            .field("call_id", &self.call.call_id)
            .field("tool", &self.call.tool)
            .finish_non_exhaustive()
    }
}

/// Receives the events of a running call. It must not block; if it cannot keep up, it drops events.
pub(crate) type EventSink = Arc<dyn Fn(CallEvent) + Send + Sync>;

/// Ends a call without a waiting caller, as left behind by a restart of the hub: records the end, under its
/// idempotency key too. Retried until it succeeds; a call that has already ended is not changed.
pub(crate) type Conclude =
    Arc<dyn Fn(NodeId, CallId, CallOutcome) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// Why a call has no outcome on this hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The machine does not exist (any more), and the call was not sent to it.
    Unknown,
    /// The machine is offline, or went offline before the call was sent; with the reason.
    Offline(String),
    /// The machine accepts no new calls.
    Draining,
    /// The caller's token was revoked while the call waited.
    Revoked,
    /// Too many calls to the machine are in flight.
    Full(usize),
    /// The call does not fit into a frame.
    TooLarge(usize),
    /// The caller has given up.
    Abandoned { sent: bool },
    /// The hub is stopping. A persistent call that was sent, or that is queued for its machine, continues: its row
    /// must be retained, and the next start of the hub receives its result.
    Stopping { continues: bool },
}

impl Undelivered {
    /// Whether it is certain that the tool was not run.
    pub(crate) fn nothing_ran(&self) -> bool {
        !matches!(self, Self::Abandoned { sent: true } | Self::Stopping { continues: true })
    }

    /// The error for a machine of this name.
    pub(crate) fn error(&self, node: &str) -> CallError {
        let error = match self {
            Self::Unknown => CallError::new(ErrorCode::NotFound, format!("there is no node {node}"))
                .hint("`plexus node list` shows them."),
            Self::Offline(why) => {
                CallError::new(ErrorCode::Unavailable, format!("the node {node} is offline: {why}"))
                    .hint("Nothing was run. Call again when it is online, or set `queue` to wait for it.")
            }
            Self::Draining => {
                CallError::new(ErrorCode::Unavailable, format!("the node {node} accepts no new calls"))
                    .hint("Nothing was run. It is being drained; use another node.")
            }
            Self::Revoked => CallError::new(ErrorCode::Forbidden, REVOKED).hint("Nothing was run."),
            Self::Full(most) => CallError::new(
                ErrorCode::Overloaded,
                format!("the node {node} has {most} calls in flight, or their arguments reached the size limit for one node"),
            )
            .hint("Nothing was run. Wait until one has finished and call again."),
            Self::TooLarge(bytes) => CallError::new(
                ErrorCode::TooLarge,
                format!("the arguments have {bytes} bytes, more than can be sent to a node"),
            )
            .hint("Nothing was run. Write large data to a file on the node, in parts."),
            Self::Abandoned { .. } => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
            Self::Stopping { continues: true } => {
                CallError::new(ErrorCode::Unavailable, "the hub is stopping while the call runs on its node").hint(
                    "It continues there. Call again with the same idempotency key to get its result; without a key, check the effects first.",
                )
            }
            Self::Stopping { continues: false } => {
                CallError::new(ErrorCode::Unavailable, "the hub is stopping").hint("Call again in a moment.")
            }
        };
        if self.nothing_ran() { error.before_it_ran() } else { error }
    }
}

/// The outcome of a call whose progress only the machine knew.
pub(super) fn interrupted(why: &str) -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::Interrupted,
        message: format!("the call was interrupted: {why}"),
        hint: Some(
            "It may have been executed partially. Check its effects before you call again.".to_owned(),
        ),
        details: Value::Null,
        nothing_ran: false,
    })
}

/// The outcome of a call that timed out before its machine accepted it.
pub(super) fn expired() -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::DeadlineExceeded,
        message: "the call timed out before its node could accept it".to_owned(),
        hint: Some("Nothing was run.".to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}

/// The outcome of a call whose token was revoked before its machine could accept it.
pub(super) fn revoked() -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::Forbidden,
        message: REVOKED.to_owned(),
        hint: Some("Nothing was run.".to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}
