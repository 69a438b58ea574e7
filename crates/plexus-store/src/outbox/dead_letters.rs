//! Listing of an outbox, and handling of dead letters.
//!
//! A dead letter is never only logged: it stays in the file, and its recipients are notified until they
//! confirm.

use super::queue::{LEASED, lease_values};
use super::row::Row;
use super::write::{AGENT_NOTIFIED, HUB_NOTIFIED, Write, WriteFilter};
use super::{LONGEST_LEASE, Outbox, OutboxError, millis};
use crate::conn::{Sql, Value};

/// Who is notified of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterRecipient {
    Hub,
    Agent,
}

impl DeadLetterRecipient {
    fn bit(self) -> i64 {
        match self {
            Self::Hub => HUB_NOTIFIED,
            Self::Agent => AGENT_NOTIFIED,
        }
    }
}

/// Result of [`Outbox::drop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropOutcome {
    Dropped,
    /// It waits for delivery, but only dead letters were to be dropped.
    Waiting,
    /// Currently being sent.
    InFlight,
    NotFound,
}

impl Outbox {
    /// Writes after the one with this id, oldest first, at most `limit`.
    pub async fn list(&self, which: WriteFilter, after: i64, limit: u32) -> Result<Vec<Write>, OutboxError> {
        let condition = match which {
            WriteFilter::Pending => "AND died_at IS NULL",
            WriteFilter::Dead => "AND died_at IS NOT NULL",
            WriteFilter::All => "",
        };
        let rest = format!("WHERE id > $1 {condition} ORDER BY id LIMIT $2");
        let writes = self.writes(rest, vec![after.into(), i64::from(limit).into()]).await?;
        Ok(writes.into_iter().map(|(write, _)| write).collect())
    }

    /// A write with the JSON of its call.
    pub async fn show(&self, id: i64) -> Result<Option<(Write, String)>, OutboxError> {
        Ok(self.writes("WHERE id = $1".to_owned(), vec![id.into()]).await?.into_iter().next())
    }

    async fn writes(&self, rest: String, values: Vec<Value>) -> Result<Vec<(Write, String)>, OutboxError> {
        let now = self.now();
        let is_leased = move |until: i64| until > now && until <= now.saturating_add(millis(LONGEST_LEASE));
        self.run(move |conn| {
            let (sql, values) = (Row::select(&rest), values.clone());
            Box::pin(async move {
                let rows = conn.rows("listing writes", sql, values).await?;
                rows.iter().map(|row| Ok(Write::of(Row::checked(row)?, is_leased))).collect()
            })
        })
        .await
    }

    /// Moves a dead letter to the end of its session's queue, keeping its key and timestamp. Returns its new
    /// id; `None` if there is no such dead letter.
    ///
    /// If it was already executed and has been dead for longer than a hub remembers keys, it may be executed
    /// twice.
    pub async fn retry(&self, id: i64) -> Result<Option<i64>, OutboxError> {
        let now = self.now();
        let new = self
            .run(move |conn| {
                Box::pin(async move {
                    let sql = "UPDATE writes SET id = (SELECT last_id + 1 FROM tally), died_at = NULL, note = NULL, \
                               told = 0, attempts = 0, not_before = 0, queued_at = $2, epoch = epoch + 1 \
                               WHERE id = $1 AND died_at IS NOT NULL RETURNING id";
                    let row = conn.row("retrying a dead letter", sql, vec![id.into(), now.into()]).await?;
                    row.map(|row| row.int(0)).transpose()
                })
            })
            .await?;
        if new.is_some() {
            self.wake();
        }
        Ok(new)
    }

    /// Deletes a dead letter; with `waiting` also a waiting write, which then is never delivered.
    pub async fn drop(&self, id: i64, waiting: bool) -> Result<DropOutcome, OutboxError> {
        let now = self.now();
        self.run(move |conn| {
            Box::pin(async move {
                let sql = format!(
                    "DELETE FROM writes WHERE id = $3 AND (died_at IS NOT NULL OR ($4 = 1 AND NOT {LEASED}))"
                );
                let mut values = lease_values(now);
                values.extend([id.into(), i64::from(waiting).into()]);
                if conn.execute("dropping a write", Sql::Built(sql), values).await? == 1 {
                    return Ok(DropOutcome::Dropped);
                }
                let exists = "SELECT 1 FROM writes WHERE id = $1";
                let exists = conn.row("looking for a write", exists, vec![id.into()]).await?;
                Ok(match (exists, waiting) {
                    (None, _) => DropOutcome::NotFound,
                    (Some(_), true) => DropOutcome::InFlight,
                    (Some(_), false) => DropOutcome::Waiting,
                })
            })
        })
        .await
    }

    /// Dead letters that the recipient was not notified of yet, oldest first, optionally of one session. The
    /// caller marks them after notifying: a crash in between notifies twice but never drops a notification.
    pub async fn unreported_dead_letters(
        &self,
        recipient: DeadLetterRecipient,
        session: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Write>, OutboxError> {
        let rest = "WHERE died_at IS NOT NULL AND told & $1 = 0 AND ($2 IS NULL OR session = $2) ORDER BY id LIMIT $3";
        let values = vec![recipient.bit().into(), session.into(), i64::from(limit).into()];
        let writes = self.writes(rest.to_owned(), values).await?;
        Ok(writes.into_iter().map(|(write, _)| write).collect())
    }

    /// Marks these dead letters as known to the recipient.
    pub async fn mark_dead_letters_reported(
        &self,
        recipient: DeadLetterRecipient,
        dead_letters: &[Write],
    ) -> Result<(), OutboxError> {
        if dead_letters.is_empty() {
            return Ok(());
        }
        let ids: Vec<Value> = dead_letters.iter().map(|dead_letter| dead_letter.id.into()).collect();
        let placeholders = (2..ids.len() + 2).map(|n| format!("${n}")).collect::<Vec<_>>().join(",");
        let sql = format!(
            "UPDATE writes SET told = told | $1 WHERE died_at IS NOT NULL AND id IN ({placeholders})"
        );
        let values: Vec<Value> = std::iter::once(recipient.bit().into()).chain(ids).collect();
        self.run(move |conn| {
            let (sql, values) = (Sql::Built(sql.clone()), values.clone());
            Box::pin(async move { conn.execute("recording notifications", sql, values).await })
        })
        .await?;
        Ok(())
    }
}
