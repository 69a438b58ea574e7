//! A call on its way to a machine, and how that can end.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use plexus_proto::node::{self, CallEvent, CallOutcome, Failure, Frame};
use plexus_proto::{CallId, ErrorCode, NodeId};
use plexus_tools::CallError;
use serde_json::Value;
use tokio::time::Instant;

const REVOKED: &str = "the token of the call was revoked while the call waited for its node";

/// A call that is to be run on a machine.
#[derive(Clone)]
pub(crate) struct OutgoingCall {
    /// Its time counts from the moment at which it is sent first.
    pub(crate) call: node::Call,
    /// It waits for a machine that is away, instead of being refused.
    pub(crate) queue: bool,
    /// Called when it is sent first. It must not block.
    pub(crate) on_sent: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl OutgoingCall {
    /// What it holds in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.call.arguments.get().len() + self.call.tool.len()
    }

    /// The frame that asks for it, with what is left of its time until then.
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

/// Where the events of a call go while it is waited for. It must not block; what cannot keep up drops what it gets.
pub(crate) type EventSink = Arc<dyn Fn(CallEvent) + Send + Sync>;

/// Ends a call that nobody waits for, as a restart of the hub leaves them: in its record, and under its key. Called again
/// until it succeeds; a call that has ended already is left as it is.
pub(crate) type Conclude =
    Arc<dyn Fn(NodeId, CallId, CallOutcome) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// Why a call has no outcome here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// There is no such machine (any more), and the call was not sent to it.
    Unknown,
    /// It is away, or went before the call was sent; in its own words why.
    Offline(String),
    /// It takes no new calls.
    Draining,
    /// The token that asked was revoked while the call waited.
    Revoked,
    /// Too many calls are under way to it.
    Full(usize),
    /// It does not fit into a frame.
    TooLarge(usize),
    /// Whoever waits has given up.
    GivenUp { sent: bool },
    /// The hub stops. A call that is kept goes on if it was sent, or waits for its machine: its row must stay, and its
    /// result is taken by the next start of the hub.
    Stopping { goes_on: bool },
}

impl Undelivered {
    /// Whether it is certain that the tool did nothing.
    pub(crate) fn nothing_ran(&self) -> bool {
        !matches!(self, Self::GivenUp { sent: true } | Self::Stopping { goes_on: true })
    }

    /// In words, of the machine of this name.
    pub(crate) fn error(&self, node: &str) -> CallError {
        let error = match self {
            Self::Unknown => CallError::new(ErrorCode::NotFound, format!("there is no node {node}"))
                .hint("`plexus node list` shows them."),
            Self::Offline(why) => {
                CallError::new(ErrorCode::Unavailable, format!("the node {node} is offline: {why}"))
                    .hint("Nothing was run. Call again when it is back, or with `queue` to wait for it.")
            }
            Self::Draining => {
                CallError::new(ErrorCode::Unavailable, format!("the node {node} takes no new calls"))
                    .hint("Nothing was run. It is being drained; use another node.")
            }
            Self::Revoked => CallError::new(ErrorCode::Forbidden, REVOKED).hint("Nothing was run."),
            Self::Full(most) => CallError::new(
                ErrorCode::Overloaded,
                format!("the node {node} has {most} calls under way, or as much of their arguments as is kept for one node"),
            )
            .hint("Nothing was run. Wait for one to end and call again."),
            Self::TooLarge(bytes) => CallError::new(
                ErrorCode::TooLarge,
                format!("the arguments have {bytes} bytes, more than can be sent to a node"),
            )
            .hint("Nothing was run. Write large data to a file there, in parts."),
            Self::GivenUp { .. } => CallError::new(ErrorCode::Cancelled, "the call was cancelled"),
            Self::Stopping { goes_on: true } => {
                CallError::new(ErrorCode::Unavailable, "the hub stops while the call is with its node").hint(
                    "It goes on there. Call again with the same idempotency key to get its result; without a key, look first.",
                )
            }
            Self::Stopping { goes_on: false } => {
                CallError::new(ErrorCode::Unavailable, "the hub stops").hint("Call again in a moment.")
            }
        };
        if self.nothing_ran() { error.before_it_ran() } else { error }
    }
}

/// The end of a call of which only the machine knew how far it had come.
pub(super) fn interrupted(why: &str) -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::Interrupted,
        message: format!("the call was interrupted: {why}"),
        hint: Some(
            "It may have done a part of its work. Look first, and call again only if it has not.".to_owned(),
        ),
        details: Value::Null,
        nothing_ran: false,
    })
}

/// The end of a call whose time was up before its machine took it.
pub(super) fn expired() -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::DeadlineExceeded,
        message: "the call's time was up before its node could take it".to_owned(),
        hint: Some("Nothing was run.".to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}

/// The end of a call whose token was revoked before its machine could take it.
pub(super) fn revoked() -> CallOutcome {
    CallOutcome::Failed(Failure {
        code: ErrorCode::Forbidden,
        message: REVOKED.to_owned(),
        hint: Some("Nothing was run.".to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}
