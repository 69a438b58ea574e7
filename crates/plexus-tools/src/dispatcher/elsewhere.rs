//! Calls that do something outside of the hub, which no transaction of ours can undo.
//!
//! What is said of such a call holds there: that nothing was run is said only where it did not get as far as that.

use std::sync::atomic::Ordering;

use plexus_proto::{CallId, ErrorCode};

use super::kept::{self, Kept};
use super::prepare::Prepared;
use super::record::CallRecord;
use super::{Inner, Keep, bound, run_handler};
use crate::{CallError, Outcome, ToolContext, ToolOutput};

impl Inner {
    /// Runs the handler. Its key is taken before, and kept, unless it is certain that nothing was done.
    pub(super) async fn execute_elsewhere(
        &self,
        prepared: Prepared,
        context: ToolContext,
        record: CallRecord,
        keep: Option<Keep>,
    ) -> Result<ToolOutput, CallError> {
        if let Some(keep) = &keep
            && let Err(error) = self.take(keep, record.call_id()).await
        {
            return self.finish(record, Err(error)).await;
        }
        let result = match run_handler(prepared, context).await {
            Ok(Outcome::Ready(output)) => bound(output, self.output_bytes.load(Ordering::Relaxed)),
            Ok(Outcome::Transact(_)) => {
                Err(CallError::new(ErrorCode::Internal, "a tool of another server wrote to the hub"))
            }
            Err(error) => Err(error),
        };
        let recorded = match keep {
            Some(keep) => self.settle(record, keep, &result).await,
            None => self.record_end(record, &result).await.map_err(CallError::from),
        };
        recorded.map_err(|error| error.after(&result))?;
        result
    }

    /// Takes the key for a call that is about to reach out.
    async fn take(&self, keep: &Keep, call_id: CallId) -> Result<(), CallError> {
        let (begun, now) = (keep.record(call_id, Kept::Begun { begun: true })?, self.clock.now());
        let work = self
            .store
            .write(move |conn| Box::pin(async move { conn.insert_idempotent_result(&begun, now).await }));
        match work.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(kept::taken_first()),
            // The key may be taken all the same, by a call that is not made.
            Err(error) => Err(CallError::from(error).hint(
                "Nothing was run. Call again; if the first call with this key is then said to have begun, with a new key.",
            )),
        }
    }

    /// Records the end of a call whose key was taken, and what the key stands for now.
    async fn settle(
        &self,
        record: CallRecord,
        keep: Keep,
        result: &Result<ToolOutput, CallError>,
    ) -> Result<(), CallError> {
        let kept = Kept::of(result).map(|kept| kept.text()).transpose()?;
        let ended = record.ended(result.as_ref());
        self.store
            .transact(
                move |conn| {
                    Box::pin(async move {
                        match kept {
                            Some(kept) => conn.set_idempotent_result(&keep.subject, &keep.key, &kept).await?,
                            None => conn.free_idempotency_key(&keep.subject, &keep.key).await?,
                        }
                        Ok::<(), CallError>(())
                    })
                },
                move |_| record.complete(ended),
            )
            .await?
    }
}
