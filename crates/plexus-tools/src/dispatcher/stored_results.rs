//! Results stored under idempotency keys.
//!
//! A native write commits in one transaction with its key, so either a result is stored or nothing happened. A call to
//! another server cannot be rolled back: its key is reserved before the call, and the outcome, including an unknown one,
//! is stored under the key. The key is released only if the call certainly had no effect.

use plexus_proto::{CallId, ErrorCode, SessionId};
use plexus_store::IdempotencyRecord;
use serde::{Deserialize, Serialize};

use crate::{CallError, ToolOutput};

/// The hint for a repeated call whose first attempt has no result.
const CHECK_FIRST_HINT: &str = "Nothing was run now. Check whether the first call took effect; if it did not, call again with a new key.";

/// The stored outcome of the first call with a key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredResult {
    /// The call has started, and its end is not known.
    Started {
        #[serde(rename = "begun")]
        started: bool,
    },
    Failed {
        error: CallError,
    },
    Output(ToolOutput),
}

impl StoredResult {
    pub(super) fn text(&self) -> Result<String, CallError> {
        serde_json::to_string(self)
            .map_err(|e| CallError::new(ErrorCode::Internal, format!("the result cannot be stored: {e}")))
    }

    /// The outcome to store after a call outside the hub; none releases the key.
    pub(super) fn of(result: &Result<ToolOutput, CallError>) -> Option<Self> {
        match result {
            Ok(output) => Some(Self::Output(output.clone())),
            Err(error) if error.nothing_ran() => None,
            Err(error) => Some(Self::Failed { error: error.clone() }),
        }
    }

    /// Whether the stored outcome says only that the call has started.
    pub(super) fn is_started(text: &str) -> bool {
        matches!(serde_json::from_str(text), Ok(Self::Started { .. }))
    }

    /// The reply to a later call with the same key.
    pub(super) fn read(text: &str) -> Result<ToolOutput, CallError> {
        match serde_json::from_str(text) {
            Ok(Self::Output(output)) => Ok(output),
            Ok(Self::Failed { error }) if outcome_is_unknown(error.code) => {
                let message = format!(
                    "the first call with this idempotency key ended without a result: {}",
                    error.message
                );
                Err(CallError::new(ErrorCode::Conflict, message).hint(CHECK_FIRST_HINT))
            }
            Ok(Self::Failed { error }) => Err(error),
            Ok(Self::Started { .. }) => Err(CallError::new(
                ErrorCode::Conflict,
                "the first call with this idempotency key has started and its outcome is not known; it may still be running",
            )
            .hint(format!("If it is running, its result is available under this key when it ends. {CHECK_FIRST_HINT}"))),
            Err(_) => {
                Err(CallError::new(ErrorCode::Internal, "the stored result of the first call is damaged"))
            }
        }
    }
}

/// The key under which the result of a call is stored.
#[derive(Clone)]
pub(super) struct KeyReservation {
    pub(super) subject: String,
    pub(super) key: String,
    pub(super) request_hash: String,
    pub(super) session_id: SessionId,
}

impl KeyReservation {
    pub(super) fn record(
        &self,
        call_id: CallId,
        result: StoredResult,
    ) -> Result<IdempotencyRecord, CallError> {
        Ok(IdempotencyRecord {
            subject: self.subject.clone(),
            key: self.key.clone(),
            request_hash: self.request_hash.clone(),
            call_id,
            session_id: self.session_id,
            result: result.text()?,
        })
    }
}

/// Whether a call with this error may have taken effect. Its stored error is not replayed as it is: a retryable code
/// would invite retries with the same key, which get the same reply forever.
fn outcome_is_unknown(code: ErrorCode) -> bool {
    code.is_retryable() || code == ErrorCode::Cancelled
}

/// Another hub has reserved the key since it was looked up.
pub(super) fn reserved_concurrently() -> CallError {
    CallError::new(ErrorCode::Unavailable, "another call with this idempotency key started first")
        .hint("Nothing was run. Call again with the same key to get its result.")
}

/// The key belongs to a different call.
pub(super) fn key_reused(key: &str) -> CallError {
    let message =
        format!("the idempotency key {key:?} was already used with another tool or other arguments");
    CallError::new(ErrorCode::IdempotencyConflict, message)
        .hint("Nothing was run. Use a new key for a new call.")
}
