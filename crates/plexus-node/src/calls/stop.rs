//! Stopping a running call, with the reason.

use std::sync::{Arc, OnceLock};

use plexus_proto::ErrorCode;
use plexus_proto::node::{CallOutcome, CancelReason, Failure};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Why a call is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Hub(CancelReason),
    NodeStops,
}

/// Stops one call. If it is stopped several times, the first reason counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal {
    token: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
}

impl StopSignal {
    pub(crate) fn stop(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Cancelled when the call must stop, with everything that it has started.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// The outcome of a call that was stopped before it started; none if it was not stopped.
    pub(crate) fn outcome_if_not_started(&self) -> Option<CallOutcome> {
        let reason = self.reason.get().filter(|_| self.token.is_cancelled())?;
        Some(match reason {
            StopReason::Hub(CancelReason::Caller) => {
                refused(ErrorCode::Cancelled, "the call was cancelled", "")
            }
            StopReason::Hub(CancelReason::Deadline) => {
                refused(ErrorCode::DeadlineExceeded, "the deadline of the call passed before it started", "")
            }
            StopReason::NodeStops => {
                refused(ErrorCode::Unavailable, "the node is stopping", "Call again when it is back.")
            }
        })
    }

    /// Adapts the outcome of a call to the reason for which it was stopped, if it was.
    pub(crate) fn explain(&self, outcome: CallOutcome) -> CallOutcome {
        let CallOutcome::Failed(failure) = outcome else { return outcome };
        let stopped = matches!(failure.code, ErrorCode::Cancelled | ErrorCode::DeadlineExceeded);
        CallOutcome::Failed(match self.reason.get() {
            Some(StopReason::NodeStops) if stopped && !failure.nothing_ran => interrupted(),
            Some(StopReason::Hub(CancelReason::Deadline)) if stopped => {
                Failure { code: ErrorCode::DeadlineExceeded, ..failure }
            }
            _ => failure,
        })
    }
}

/// The failure of a call that was running when the node stopped.
pub(crate) fn interrupted() -> Failure {
    Failure {
        code: ErrorCode::Interrupted,
        message: "it was running when the node stopped; it may have done part of its work".to_owned(),
        hint: Some("Check first, and call again only if it has not done its work.".to_owned()),
        details: Value::Null,
        nothing_ran: false,
    }
}

/// The failure of a call that was not started.
pub(crate) fn refused(code: ErrorCode, message: impl Into<String>, hint: &str) -> CallOutcome {
    CallOutcome::Failed(Failure {
        code,
        message: message.into(),
        hint: Some(format!("Nothing was run. {hint}").trim_end().to_owned()),
        details: Value::Null,
        nothing_ran: true,
    })
}
