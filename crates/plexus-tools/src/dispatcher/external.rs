//! Calls with an effect outside the hub, which no transaction can roll back.
//!
//! "Nothing was run" is reported only if the call certainly did not reach the other server.

use std::sync::atomic::Ordering;

use plexus_proto::{CallId, ErrorCode};

use super::prepare::PreparedCall;
use super::record::CallRecord;
use super::stored_results::{self, StoredResult};
use super::{Inner, KeyClaim, bound, run_handler};
use crate::{CallError, Outcome, ToolContext, ToolOutput};

impl Inner {
    /// Claims the key, then runs the handler. The key is released only if the call certainly had no effect.
    pub(super) async fn execute_external(
        &self,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        claim: Option<KeyClaim>,
    ) -> Result<ToolOutput, CallError> {
        if let Some(claim) = &claim
            && let Err(error) = self.claim_key(claim, record.call_id()).await
        {
            return self.finish(record, Err(error)).await;
        }
        let result = match run_handler(prepared, context).await {
            Ok(Outcome::Ready(output)) => bound(output, self.output_bytes.load(Ordering::Relaxed)),
            Ok(Outcome::Transact(_)) => Err(CallError::new(
                ErrorCode::Internal,
                "a tool of another server tried to write to the hub's database",
            )),
            Err(error) => Err(error),
        };
        let recorded = match claim {
            Some(claim) => self.settle_external(record, claim, &result).await,
            None => self.record_end(record, &result).await.map_err(CallError::from),
        };
        recorded.map_err(|error| error.after(&result))?;
        result
    }

    /// Claims the key of a call before it is sent.
    async fn claim_key(&self, claim: &KeyClaim, call_id: CallId) -> Result<(), CallError> {
        let (started, now) =
            (claim.record(call_id, StoredResult::Started { begun: true })?, self.clock.now());
        let work = self
            .store
            .write(move |conn| Box::pin(async move { conn.insert_idempotent_result(&started, now).await }));
        match work.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(stored_results::claimed_concurrently()),
            // The claim may have been committed although the call is not made.
            Err(error) => Err(CallError::from(error).hint(
                "Nothing was run. Call again; if the reply is that the first call has started, use a new key.",
            )),
        }
    }

    /// Records the end of a call and stores its outcome under its key.
    async fn settle_external(
        &self,
        record: CallRecord,
        claim: KeyClaim,
        result: &Result<ToolOutput, CallError>,
    ) -> Result<(), CallError> {
        let stored = StoredResult::of(result).map(|stored| stored.text()).transpose()?;
        let ended = record.ended(result.as_ref());
        self.store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        match stored {
                            Some(stored) => {
                                conn.set_idempotent_result(&claim.subject, &claim.key, &stored).await?
                            }
                            None => conn.free_idempotency_key(&claim.subject, &claim.key).await?,
                        }
                        Ok::<(), CallError>(())
                    })
                },
                move |_| record.complete(ended),
            )
            .await?
    }
}
