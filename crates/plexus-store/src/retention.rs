//! Retention: removes rows that exceed their policy, oldest first, a bounded number at a time.
//!
//! - Audit entries are removed from the start of the chain, and in the same transaction a signed notice with
//!   the number and hash of the last removed entry is appended: the rest is verified from there on. Modified
//!   entries are not removed: a policy must not destroy evidence of tampering.
//! - Unsigned audit logs, such as a node's own, are truncated without a notice, since nobody could sign it.
//! - Events are removed from the start of the order of all sessions; each session records up to where its own
//!   log was removed.

use std::sync::Arc;

use plexus_proto::Timestamp;

use crate::audit::NewAudit;
use crate::audit_verify::Pruned;
use crate::writer::Records;
use crate::{Conn, Store, StoreError, Witness};

/// Maximum number of rows removed in one transaction, so that writers wait only briefly.
const CHUNK: i64 = 1_000;

impl Store {
    /// Removes entries older than `before`, but never entry `keep_from` or later ones, because it is the
    /// entry signed last. Returns the number removed; call again until it is 0.
    pub async fn prune_audit(
        &self,
        before: Timestamp,
        keep_from: i64,
        now: Timestamp,
        witness: Arc<dyn Witness>,
    ) -> Result<i64, StoreError> {
        let (hub, name, signer) =
            (self.instance_id().to_owned(), self.instance_id().to_owned(), witness.clone());
        let outcome = self
            .transact(
                move |conn| {
                    Box::pin(async move { conn.prune_audit(&hub, before, keep_from, &*witness).await })
                },
                move |outcome| match outcome {
                    Ok(Some((_, pruned))) => {
                        let notice = NewAudit::pruned(now, &name, pruned, &*signer);
                        Records { audit: vec![notice], events: vec![] }
                    }
                    _ => Records::default(),
                },
            )
            .await?;
        outcome.map(|removed| removed.map_or(0, |(count, _)| count))
    }

    /// Removes entries of an unsigned audit log: those older than `before`, and those beyond the newest
    /// `most`. The newest entry stays, since the chain continues from it. Returns the number removed; call
    /// again until it is 0.
    pub async fn prune_unsigned_audit(&self, before: Timestamp, most: i64) -> Result<u64, StoreError> {
        let hub = self.instance_id().to_owned();
        self.write(move |conn| Box::pin(async move { conn.prune_unsigned_audit(&hub, before, most).await }))
            .await
    }

    /// Removes events older than `before`. Returns the number removed; call again until it is 0.
    pub async fn prune_events(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.write(move |conn| Box::pin(conn.prune_events(before))).await
    }
}

impl Conn {
    async fn prune_audit(
        &mut self,
        hub: &str,
        before: Timestamp,
        keep_from: i64,
        witness: &dyn Witness,
    ) -> Result<Option<(i64, Pruned)>, StoreError> {
        // In chain order, so that only old entries are read.
        let first = "SELECT n FROM audit WHERE hub = $1 ORDER BY n LIMIT 1";
        let first = self.row("reading the first audit entry", first, vec![hub.into()]).await?;
        let first_kept = "SELECT n FROM audit WHERE hub = $1 AND at >= $2 ORDER BY n LIMIT 1";
        let first_kept = self
            .row(
                "looking for old audit entries",
                first_kept,
                vec![hub.into(), before.as_millisecond().into()],
            )
            .await?;
        let Some(first) = first.map(|row| row.int(0)).transpose()? else { return Ok(None) };
        let first_kept = first_kept.map(|row| row.int(0)).transpose()?.unwrap_or(i64::MAX).min(keep_from);
        let through = (first_kept - 1).min(first + CHUNK - 1);
        if through < first {
            return Ok(None);
        }
        if !self.audit_begins_whole(hub, through, CHUNK, witness).await? {
            tracing::error!("old audit entries were modified; none are removed");
            return Ok(None);
        }
        let hash = "SELECT hash FROM audit WHERE hub = $1 AND n = $2";
        let hash = self.row("reading an audit entry", hash, vec![hub.into(), through.into()]).await?;
        let Some(hash) = hash.map(|row| row.text(0)).transpose()? else { return Ok(None) };
        let breaks = self.audit_breaks(hub, through, witness).await?;
        let removed = self
            .execute(
                "removing old audit entries",
                "DELETE FROM audit WHERE hub = $1 AND n <= $2",
                vec![hub.into(), through.into()],
            )
            .await?;
        Ok(Some((i64::try_from(removed).unwrap_or(i64::MAX), Pruned { through, hash, breaks })))
    }

    async fn prune_unsigned_audit(
        &mut self,
        hub: &str,
        before: Timestamp,
        most: i64,
    ) -> Result<u64, StoreError> {
        let ends = "SELECT MIN(n), MAX(n) FROM audit WHERE hub = $1";
        let ends = self.row("reading the ends of the audit", ends, vec![hub.into()]).await?;
        let Some((first, last)) =
            ends.map(|row| Ok::<_, StoreError>((row.opt_int(0)?, row.opt_int(1)?))).transpose()?
        else {
            return Ok(0);
        };
        let (Some(first), Some(last)) = (first, last) else { return Ok(0) };
        let young = "SELECT n FROM audit WHERE hub = $1 AND at >= $2 ORDER BY n LIMIT 1";
        let young = self
            .row("looking for old audit entries", young, vec![hub.into(), before.as_millisecond().into()])
            .await?;
        let young = young.map(|row| row.int(0)).transpose()?.unwrap_or(last);
        let first_kept = young.max(last.saturating_sub(most.max(1) - 1)).min(last).min(first + CHUNK);
        let sql = "DELETE FROM audit WHERE hub = $1 AND n < $2";
        self.execute("removing old audit entries", sql, vec![hub.into(), first_kept.into()]).await
    }

    async fn prune_events(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        let first = "SELECT pos FROM session_events ORDER BY pos LIMIT 1";
        let first = self.row("reading the first event", first, vec![]).await?;
        let first_kept = "SELECT pos FROM session_events WHERE at >= $1 ORDER BY pos LIMIT 1";
        let first_kept =
            self.row("looking for old events", first_kept, vec![before.as_millisecond().into()]).await?;
        let Some(first) = first.map(|row| row.int(0)).transpose()? else { return Ok(0) };
        let first_kept = first_kept.map(|row| row.int(0)).transpose()?.unwrap_or(i64::MAX).min(first + CHUNK);
        self.execute(
            "recording which events are removed",
            "UPDATE sessions SET pruned_seq = removed.seq \
             FROM (SELECT session_id, MAX(seq) AS seq FROM session_events WHERE pos < $1 GROUP BY session_id) removed \
             WHERE sessions.id = removed.session_id",
            vec![first_kept.into()],
        )
        .await?;
        self.execute(
            "removing old events",
            "DELETE FROM session_events WHERE pos < $1",
            vec![first_kept.into()],
        )
        .await
    }
}
