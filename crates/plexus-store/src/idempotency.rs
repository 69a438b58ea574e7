//! Idempotency keys and the first results of writes, by subject and key.
//!
//! A key is reserved, its result is stored, or it is released. A native write reserves its key together with its result, in its
//! own transaction. A call with an external effect reserves its key before it starts, with a placeholder as the result; at its
//! end the result is stored, or the key is released if nothing ran. Keys and results are purged after
//! [`IdempotencyRecord::RETENTION`]. The dispatcher (`dispatcher/stored_results.rs` in `plexus-tools`) encodes the results.

use std::time::Duration;

use plexus_proto::{CallId, SessionId, Timestamp};

use crate::{Conn, StoreError};

/// Result of the first call with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub subject: String,
    pub key: String,
    /// Digest of tool and arguments: reusing the key with others is an error of the caller.
    pub request_hash: String,
    pub call_id: CallId,
    pub session_id: SessionId,
    /// The result, as encoded by the dispatcher.
    pub result: String,
}

impl IdempotencyRecord {
    /// How long a hub remembers a key: within this time, a repeated call does not run again.
    pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
}

impl Conn {
    /// The record of a reserved key.
    pub async fn idempotent_result(
        &mut self,
        subject: &str,
        key: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let row = self
            .row(
                "looking up an idempotency key",
                "SELECT request_hash, call_id, session_id, result FROM idempotency WHERE subject = $1 AND key = $2",
                vec![subject.into(), key.into()],
            )
            .await?;
        row.map(|row| {
            Ok(IdempotencyRecord {
                subject: subject.to_owned(),
                key: key.to_owned(),
                request_hash: row.text(0)?,
                call_id: row.text(1)?.parse().map_err(|e| StoreError::damaged("idempotency", e))?,
                session_id: row.text(2)?.parse().map_err(|e| StoreError::damaged("idempotency", e))?,
                result: row.text(3)?,
            })
        })
        .transpose()
    }

    /// Reserves a key for the call of the record. Returns false if the key is already reserved: the caller must roll
    /// back its write.
    pub async fn reserve_idempotency_key(
        &mut self,
        record: &IdempotencyRecord,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let reserved = self
            .execute(
                "reserving an idempotency key",
                "INSERT INTO idempotency (subject, key, request_hash, call_id, session_id, result, at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (subject, key) DO NOTHING",
                vec![
                    record.subject.as_str().into(),
                    record.key.as_str().into(),
                    record.request_hash.as_str().into(),
                    record.call_id.to_string().into(),
                    record.session_id.to_string().into(),
                    record.result.as_str().into(),
                    now.as_millisecond().into(),
                ],
            )
            .await?;
        Ok(reserved == 1)
    }

    /// Stores the result of a reserved key.
    pub async fn store_idempotent_result(
        &mut self,
        subject: &str,
        key: &str,
        result: &str,
    ) -> Result<(), StoreError> {
        self.execute(
            "storing an idempotent result",
            "UPDATE idempotency SET result = $3 WHERE subject = $1 AND key = $2",
            vec![subject.into(), key.into(), result.into()],
        )
        .await?;
        Ok(())
    }

    /// Releases a reserved key whose call did not run.
    pub async fn release_idempotency_key(&mut self, subject: &str, key: &str) -> Result<(), StoreError> {
        self.execute(
            "releasing an idempotency key",
            "DELETE FROM idempotency WHERE subject = $1 AND key = $2",
            vec![subject.into(), key.into()],
        )
        .await?;
        Ok(())
    }

    /// Deletes keys reserved before `before`, with their results; returns their number.
    pub async fn purge_idempotency_keys(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        self.execute(
            "purging idempotency keys",
            "DELETE FROM idempotency WHERE at < $1",
            vec![before.as_millisecond().into()],
        )
        .await
    }
}
