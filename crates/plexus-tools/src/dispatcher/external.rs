//! Calls with an effect outside the hub, which no transaction can roll back.
//!
//! "Nothing was run" is reported only if the call certainly did not reach the other server.

use std::sync::atomic::Ordering;

use plexus_proto::{CallId, ErrorCode};

use super::prepare::PreparedCall;
use super::record::CallRecord;
use super::stored_results::{self, StoredResult};
use super::{Inner, KeyReservation, bound, run_handler};
use crate::{CallError, Outcome, ToolContext, ToolOutput};

impl Inner {
    /// Reserves the key, then runs the handler. The key is released only if the call certainly had no effect.
    pub(super) async fn execute_external(
        &self,
        prepared: PreparedCall,
        context: ToolContext,
        record: CallRecord,
        reservation: Option<KeyReservation>,
    ) -> Result<ToolOutput, CallError> {
        if let Some(reservation) = &reservation
            && let Err(error) = self.reserve_key(reservation, record.call_id()).await
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
        let recorded = match reservation {
            Some(reservation) => self.settle_external(record, reservation, &result).await,
            None => self.record_end(record, &result).await.map_err(CallError::from),
        };
        recorded.map_err(|error| error.after(&result))?;
        result
    }

    /// Reserves the key of a call before it is sent.
    async fn reserve_key(&self, reservation: &KeyReservation, call_id: CallId) -> Result<(), CallError> {
        let (started, now) =
            (reservation.record(call_id, StoredResult::Started { started: true })?, self.clock.now());
        let work = self
            .store
            .write(move |conn| Box::pin(async move { conn.reserve_idempotency_key(&started, now).await }));
        match work.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(stored_results::reserved_concurrently()),
            // The reservation may have been committed although the call is not made.
            Err(error) => Err(CallError::from(error).hint(
                "Nothing was run. Call again; if the reply is that the first call has started, use a new key.",
            )),
        }
    }

    /// Records the end of a call and stores its outcome under its key.
    async fn settle_external(
        &self,
        record: CallRecord,
        reservation: KeyReservation,
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
                                conn.store_idempotent_result(&reservation.subject, &reservation.key, &stored)
                                    .await?
                            }
                            None => {
                                conn.release_idempotency_key(&reservation.subject, &reservation.key).await?
                            }
                        }
                        Ok::<(), CallError>(())
                    })
                },
                move |_| record.complete(ended),
            )
            .await?
    }
}
