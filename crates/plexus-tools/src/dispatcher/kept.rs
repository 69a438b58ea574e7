//! What is kept under an idempotency key.
//!
//! A write of ours is one transaction with its key, so there is a result or nothing. What is done by another server
//! cannot be undone: its key is taken before the call, and whatever becomes of the call, also that nobody knows, is
//! what the key stands for from then on. It is given back only where it is certain that nothing was done.

use plexus_proto::{CallId, ErrorCode, SessionId};
use plexus_store::IdempotencyRecord;
use serde::{Deserialize, Serialize};

use crate::{CallError, ToolOutput};

/// For one who asks for the result of a call that has none.
const LOOK_FIRST: &str = "Nothing was run now. Look whether the first has done its work; if it has not, call again with a new key.";

/// The first call with a key, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Kept {
    /// It began, and nothing was heard of it since.
    Begun {
        begun: bool,
    },
    Failed {
        error: CallError,
    },
    Output(ToolOutput),
}

impl Kept {
    pub(super) fn text(&self) -> Result<String, CallError> {
        serde_json::to_string(self)
            .map_err(|e| CallError::new(ErrorCode::Internal, format!("the result cannot be stored: {e}")))
    }

    /// What a key stands for after a call that was made elsewhere; none: it is given back.
    pub(super) fn of(result: &Result<ToolOutput, CallError>) -> Option<Self> {
        match result {
            Ok(output) => Some(Self::Output(output.clone())),
            Err(error) if error.nothing_ran() => None,
            Err(error) => Some(Self::Failed { error: error.clone() }),
        }
    }

    /// Whether the end of the call is not known.
    pub(super) fn is_begun(text: &str) -> bool {
        matches!(serde_json::from_str(text), Ok(Self::Begun { .. }))
    }

    /// What a call with the same key is answered.
    pub(super) fn read(text: &str) -> Result<ToolOutput, CallError> {
        match serde_json::from_str(text) {
            Ok(Self::Output(output)) => Ok(output),
            Ok(Self::Failed { error }) if is_open(error.code) => {
                let message = format!(
                    "the first call with this idempotency key ended without a result: {}",
                    error.message
                );
                Err(CallError::new(ErrorCode::Conflict, message).hint(LOOK_FIRST))
            }
            Ok(Self::Failed { error }) => Err(error),
            Ok(Self::Begun { .. }) => Err(CallError::new(
                ErrorCode::Conflict,
                "the first call with this idempotency key has begun, and nobody knows its end: it may still be running",
            )
            .hint(format!("If it runs, its result is under this key when it has ended. {LOOK_FIRST}"))),
            Err(_) => {
                Err(CallError::new(ErrorCode::Internal, "the stored result of the first call is damaged"))
            }
        }
    }
}

/// Where the result of a call with a key is to be kept.
#[derive(Clone)]
pub(super) struct Keep {
    pub(super) subject: String,
    pub(super) key: String,
    pub(super) request_hash: String,
    pub(super) session_id: SessionId,
}

impl Keep {
    pub(super) fn record(&self, call_id: CallId, kept: Kept) -> Result<IdempotencyRecord, CallError> {
        Ok(IdempotencyRecord {
            subject: self.subject.clone(),
            key: self.key.clone(),
            request_hash: self.request_hash.clone(),
            call_id,
            session_id: self.session_id,
            result: kept.text()?,
        })
    }
}

/// Whether a call that ended so may have done its work all the same. To try again with the key, as such a code invites to,
/// would be answered in the same way for ever.
fn is_open(code: ErrorCode) -> bool {
    code.is_retryable() || code == ErrorCode::Cancelled
}

/// Another hub has taken the key since it was looked for.
pub(super) fn taken_first() -> CallError {
    CallError::new(ErrorCode::Unavailable, "another call with this idempotency key was faster")
        .hint("Nothing was run. Call again with the same key to get its result.")
}

/// The key stands for another call.
pub(super) fn used_otherwise(key: &str) -> CallError {
    let message = format!("the idempotency key {key:?} was used before for another tool or other arguments");
    CallError::new(ErrorCode::IdempotencyConflict, message)
        .hint("Nothing was run. Use a new key for a new call.")
}
