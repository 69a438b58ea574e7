//! The end of a write of ours: all of it in one transaction, and what becomes of one that another hub has made meanwhile.

use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_store::Records;

use super::handling::{bound, guarded};
use super::kept::{self, Keep, Kept};
use super::record::CallRecord;
use super::{Admitted, Inner};
use crate::CallError;
use crate::handler::Transaction;

/// How often a first result is looked for after a write that another hub may have made, and how long is waited in between.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(50);

/// Why a write was not made.
enum Undone {
    /// Its key has a result.
    Outrun,
    Failed(CallError),
}

impl<E: Into<CallError>> From<E> for Undone {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Inner {
    /// Commits a write with its record and, if it has a key, its result under that: all of it or nothing.
    pub(super) async fn commit(
        &self,
        work: Transaction,
        record: CallRecord,
        keep: Option<Keep>,
        limit: usize,
    ) -> Admitted {
        let (now, call_id, tool) = (self.clock.now(), record.call_id(), record.tool().to_owned());
        let (kept, spare) = (keep.clone(), keep.map(|keep| (keep, record.clone())));
        let committed = self.store.transact(
            move |conn| {
                Box::pin(async move {
                    let output = bound(guarded(&tool, work(conn)).await?, limit)?;
                    if let Some(keep) = &kept {
                        let first = keep.record(call_id, Kept::Output(output.clone()))?;
                        if !conn.insert_idempotent_result(&first, now).await? {
                            return Err(Undone::Outrun);
                        }
                    }
                    Ok(output)
                })
            },
            move |result| match result {
                Err(Undone::Outrun) => Records::default(),
                Err(Undone::Failed(error)) => record.complete(record.ended(Err(error))),
                Ok(output) => record.complete(record.ended(Ok(output))),
            },
        );
        let (error, spare) = match (committed.await, spare) {
            (Ok(Ok(output)), _) => return Admitted::run(Ok(output)),
            (Ok(Err(Undone::Outrun)), Some((keep, record))) => return self.outrun(record, keep).await,
            (Ok(Err(Undone::Outrun)), None) => (kept::taken_first(), None),
            (Ok(Err(Undone::Failed(error))), spare) => (error, spare),
            (Err(error), spare) => (error.into(), spare),
        };
        match spare {
            // Two hubs that wait for each other are told apart by their database, which lets one of them fail: the other has
            // the result in a moment.
            Some((keep, record)) if error.code == ErrorCode::Unavailable => {
                self.after_contention(record, keep, error).await
            }
            _ => Admitted::run(Err(error)),
        }
    }

    /// A write that could not be made, while another hub may have been about to make the same one.
    async fn after_contention(&self, record: CallRecord, keep: Keep, error: CallError) -> Admitted {
        for _ in 0..LOOKS {
            match self.earlier(&keep.subject, &keep.key).await {
                Ok(Some(first)) if first.request_hash == keep.request_hash => {
                    return self.outrun(record, keep).await;
                }
                Ok(None) => tokio::time::sleep(LOOK).await,
                Ok(Some(_)) | Err(_) => break,
            }
        }
        Admitted::run(Err(error))
    }

    /// Another hub has stored the first result of the key meanwhile: that is what this call is answered, too.
    async fn outrun(&self, record: CallRecord, keep: Keep) -> Admitted {
        let first = match self.earlier(&keep.subject, &keep.key).await {
            Ok(Some(first)) => first,
            // It was forgotten in this very moment.
            Ok(None) => return Admitted::run(self.finish(record, Err(kept::taken_first())).await),
            Err(error) => return Admitted::run(self.finish(record, Err(error)).await),
        };
        if first.request_hash != keep.request_hash {
            return Admitted::run(self.finish(record, Err(kept::used_otherwise(&keep.key))).await);
        }
        match self.store.append(record.outrun(first.call_id)).await {
            Ok(()) => Admitted { replayed_from: Some(first.session_id), result: Kept::read(&first.result) },
            Err(error) => Admitted::run(Err(error.into())),
        }
    }
}
