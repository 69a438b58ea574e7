//! Commits a native write in one transaction, and replays the result if another hub has committed the same write first.

use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_store::Records;

use super::execute::{bound, guarded};
use super::record::CallRecord;
use super::stored_results::{self, KeyReservation, StoredResult};
use super::{AdmittedCall, Inner};
use crate::CallError;
use crate::handler::Transaction;

/// How often, and at which interval, a failed write looks for the result of another hub's write with the same key.
const MAX_LOOKUPS: usize = 10;
const LOOKUP_INTERVAL: Duration = Duration::from_millis(50);

/// Why a write was not committed.
enum NotCommitted {
    /// A result is already stored under its key.
    KeyTaken,
    Failed(CallError),
}

impl<E: Into<CallError>> From<E> for NotCommitted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Inner {
    /// Commits a write atomically with its record and, if it has a key, with its stored result.
    pub(super) async fn commit(
        &self,
        work: Transaction,
        record: CallRecord,
        reservation: Option<KeyReservation>,
        limit: usize,
    ) -> AdmittedCall {
        let (now, call_id, tool) = (self.clock.now(), record.call_id(), record.tool().to_owned());
        let (stored, spare) =
            (reservation.clone(), reservation.map(|reservation| (reservation, record.clone())));
        let committed = self.store.transact(
            move |conn| {
                Box::pin(async move {
                    let output = bound(guarded(&tool, work(conn)).await?, limit)?;
                    if let Some(reservation) = &stored {
                        let first = reservation.record(call_id, StoredResult::Output(output.clone()))?;
                        if !conn.reserve_idempotency_key(&first, now).await? {
                            return Err(NotCommitted::KeyTaken);
                        }
                    }
                    Ok(output)
                })
            },
            move |result| match result {
                Err(NotCommitted::KeyTaken) => Records::default(),
                Err(NotCommitted::Failed(error)) => record.complete(record.ended(Err(error))),
                Ok(output) => record.complete(record.ended(Ok(output))),
            },
        );
        let (error, spare) = match (committed.await, spare) {
            (Ok(Ok(output)), _) => return AdmittedCall::run(Ok(output)),
            (Ok(Err(NotCommitted::KeyTaken)), Some((reservation, record))) => {
                return self.replay_concurrent(record, reservation).await;
            }
            (Ok(Err(NotCommitted::KeyTaken)), None) => (stored_results::reserved_concurrently(), None),
            (Ok(Err(NotCommitted::Failed(error))), spare) => (error, spare),
            (Err(error), spare) => (error.into(), spare),
        };
        match spare {
            // If the transactions of two hubs deadlock, the database aborts one of them; the other commits the result
            // shortly.
            Some((reservation, record)) if error.code == ErrorCode::Unavailable => {
                self.after_contention(record, reservation, error).await
            }
            _ => AdmittedCall::run(Err(error)),
        }
    }

    /// Handles a failed write while another hub may be committing the same one.
    async fn after_contention(
        &self,
        record: CallRecord,
        reservation: KeyReservation,
        error: CallError,
    ) -> AdmittedCall {
        for _ in 0..MAX_LOOKUPS {
            match self.earlier(&reservation.subject, &reservation.key).await {
                Ok(Some(first)) if first.request_hash == reservation.request_hash => {
                    return self.replay_concurrent(record, reservation).await;
                }
                Ok(None) => tokio::time::sleep(LOOKUP_INTERVAL).await,
                Ok(Some(_)) | Err(_) => break,
            }
        }
        AdmittedCall::run(Err(error))
    }

    /// Replies with the result that another hub has meanwhile stored under the key.
    async fn replay_concurrent(&self, record: CallRecord, reservation: KeyReservation) -> AdmittedCall {
        let first = match self.earlier(&reservation.subject, &reservation.key).await {
            Ok(Some(first)) => first,
            // It expired between the two lookups.
            Ok(None) => {
                return AdmittedCall::run(
                    self.finish(record, Err(stored_results::reserved_concurrently())).await,
                );
            }
            Err(error) => return AdmittedCall::run(self.finish(record, Err(error)).await),
        };
        if first.request_hash != reservation.request_hash {
            return AdmittedCall::run(
                self.finish(record, Err(stored_results::key_reused(&reservation.key))).await,
            );
        }
        match self.store.append(record.replayed_after_start(first.call_id)).await {
            Ok(()) => AdmittedCall {
                replayed_from: Some(first.session_id),
                result: StoredResult::read(&first.result),
            },
            Err(error) => AdmittedCall::run(Err(error.into())),
        }
    }
}
