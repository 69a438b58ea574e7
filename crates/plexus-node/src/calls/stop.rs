//! How a running call is told to stop, and by whom.

use std::sync::{Arc, OnceLock};

use plexus_proto::ErrorCode;
use plexus_proto::node::{CallOutcome, CancelReason, Failure};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Why a call is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Hub(CancelReason),
    /// The node stops.
    Node,
}

/// The first reason stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    why: Arc<OnceLock<Why>>,
}

impl Stop {
    pub(crate) fn stop(&self, why: Why) {
        let _ = self.why.set(why);
        self.token.cancel();
    }

    /// Cancelled when the call is to stop, and with it all that it has started.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// The end of a call that was stopped before it was begun, if it was.
    pub(crate) fn before_it_began(&self) -> Option<CallOutcome> {
        let why = self.why.get().filter(|_| self.token.is_cancelled())?;
        Some(match why {
            Why::Hub(CancelReason::Caller) => refused(ErrorCode::Cancelled, "the call was cancelled", ""),
            Why::Hub(CancelReason::Deadline) => {
                refused(ErrorCode::DeadlineExceeded, "the time of the call was up before it began", "")
            }
            Why::Node => {
                refused(ErrorCode::Unavailable, "the node is stopping", "Call again when it is back.")
            }
        })
    }

    /// The end of a call, told by who has stopped it; one that ended by itself ended as it says.
    pub(crate) fn explain(&self, outcome: CallOutcome) -> CallOutcome {
        let CallOutcome::Failed(failure) = outcome else { return outcome };
        let stopped = matches!(failure.code, ErrorCode::Cancelled | ErrorCode::DeadlineExceeded);
        CallOutcome::Failed(match self.why.get() {
            Some(Why::Node) if stopped && !failure.nothing_ran => interrupted(),
            Some(Why::Hub(CancelReason::Deadline)) if stopped => {
                Failure { code: ErrorCode::DeadlineExceeded, ..failure }
            }
            _ => failure,
        })
    }
}

/// The end of a call that the node did not see through.
pub(crate) fn interrupted() -> Failure {
    Failure {
        code: ErrorCode::Interrupted,
        message: "it was running when the node stopped; it may have done part of its work".to_owned(),
        hint: Some("Look first, and call again only if it has not done its work.".to_owned()),
        details: Value::Null,
        nothing_ran: false,
    }
}

/// A call that was not begun.
pub(crate) fn refused(code: ErrorCode, message: impl Into<String>, hint: &str) -> CallOutcome {
    CallOutcome::Failed(Failure {
        code,
        message: message.into(),
        hint: Some(format!("Nothing was run. {hint}").trim_end().to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}
