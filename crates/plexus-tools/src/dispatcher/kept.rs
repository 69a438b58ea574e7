//! What is kept under an idempotency key.
//!
//! A write of ours is one transaction with its key, so there is a result or nothing. What is done by another server
//! cannot be undone: its key is taken before the call, and whatever becomes of the call, also that nobody knows, is
//! what the key stands for from then on. It is given back only where it is certain that nothing was done.

use plexus_proto::{CallId, ErrorCode};
use serde::{Deserialize, Serialize};

use super::record::CallRecord;
use super::{Inner, Keep};
use crate::{CallError, ToolOutput};

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

    /// What a call with the same key is answered.
    pub(super) fn read(text: &str) -> Result<ToolOutput, CallError> {
        match serde_json::from_str(text) {
            Ok(Self::Output(output)) => Ok(output),
            Ok(Self::Failed { error }) => Err(error),
            Ok(Self::Begun { .. }) => Err(CallError::new(
                ErrorCode::Conflict,
                "the first call with this idempotency key was begun, and nobody knows whether it has done its work",
            )
            .hint("Nothing was run. Look first; if it has not, call again with a new key.")),
            Err(_) => {
                Err(CallError::new(ErrorCode::Internal, "the stored result of the first call is damaged"))
            }
        }
    }
}

impl Inner {
    /// Takes the key for a call that is about to reach out.
    pub(super) async fn take(&self, keep: &Keep, call_id: CallId) -> Result<(), CallError> {
        let (begun, now) = (keep.record(call_id, Kept::Begun { begun: true })?, self.clock.now());
        let taken = self
            .store
            .write(move |conn| Box::pin(async move { conn.insert_idempotent_result(&begun, now).await }))
            .await?;
        if taken { Ok(()) } else { Err(taken_first()) }
    }

    /// Records the end of a call whose key was taken, and what the key stands for now.
    pub(super) async fn settle(
        &self,
        record: CallRecord,
        keep: &Keep,
        result: Result<ToolOutput, CallError>,
    ) -> Result<ToolOutput, CallError> {
        let kept = match &result {
            Ok(output) => Some(Kept::Output(output.clone())),
            Err(error) if error.nothing_ran() => None,
            Err(error) => Some(Kept::Failed { error: error.clone() }),
        };
        let kept = kept.map(|kept| kept.text()).transpose()?;
        let (subject, key) = (keep.subject.clone(), keep.key.clone());
        let ended = record.ended(&result);
        self.store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        match kept {
                            Some(kept) => conn.set_idempotent_result(&subject, &key, &kept).await?,
                            None => conn.free_idempotency_key(&subject, &key).await?,
                        }
                        Ok::<(), CallError>(())
                    })
                },
                move |_| record.complete(ended),
            )
            .await
            .map_err(|error| CallError::unrecorded(error, &result))??;
        result
    }
}

/// Another hub has taken the key since it was looked for.
pub(super) fn taken_first() -> CallError {
    CallError::new(ErrorCode::Unavailable, "another call with this idempotency key was faster")
        .hint("Nothing was run. Call again with the same key to get its result.")
}
