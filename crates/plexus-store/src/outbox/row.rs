//! A row of the file, and its checksum.

use crc32fast::Hasher;

use super::schema::COLUMNS;
use crate::StoreError;
use crate::conn::{self, Sql, Value};

/// A write with all its columns, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) key: String,
    pub(super) session: String,
    pub(super) tool: String,
    pub(super) client: String,
    pub(super) bytes: i64,
    pub(super) occurred_at: i64,
    pub(super) queued_at: i64,
    pub(super) not_before: i64,
    pub(super) attempts: i64,
    pub(super) owner: Option<String>,
    pub(super) lease_until: i64,
    pub(super) epoch: i64,
    pub(super) note: Option<String>,
    pub(super) died_at: Option<i64>,
    pub(super) notified: i64,
    pub(super) params: String,
}

pub(super) fn damaged(message: impl ToString) -> StoreError {
    StoreError::damaged("writes", message)
}

impl Row {
    pub(super) const COLUMNS: &str = "id, key, session, tool, client, bytes, sum, occurred_at, queued_at, not_before, \
                                      attempts, owner, lease_until, epoch, note, died_at, told, params";

    /// Rows selected by `rest`.
    pub(super) fn select(rest: &str) -> Sql {
        Sql::Built(format!("SELECT {} FROM writes {rest}", Self::COLUMNS))
    }

    /// Checksum of the fields that never change. Lengths come first, so that data cannot move between fields.
    pub(super) fn sum(&self) -> i64 {
        let mut hasher = Hasher::new();
        let texts = [&self.key, &self.session, &self.tool, &self.client, &self.params];
        for text in texts {
            hasher.update(&(text.len() as u64).to_le_bytes());
        }
        for text in texts {
            hasher.update(text.as_bytes());
        }
        hasher.update(&self.occurred_at.to_le_bytes());
        i64::from(hasher.finalize())
    }

    /// The size that counts towards the limit.
    pub(super) fn weight(&self) -> i64 {
        let texts = [&self.key, &self.session, &self.tool, &self.client, &self.params];
        i64::try_from(texts.iter().map(|text| text.len()).sum::<usize>()).unwrap_or(i64::MAX)
    }

    /// Whether both request the same call. Client and time may differ.
    pub(super) fn is_same_write(&self, other: &Self) -> bool {
        (&self.session, &self.tool, &self.params) == (&other.session, &other.tool, &other.params)
    }

    fn read(row: &conn::Row) -> Result<(Self, i64), StoreError> {
        let read = Self {
            id: row.int(0)?,
            key: row.text(1)?,
            session: row.text(2)?,
            tool: row.text(3)?,
            client: row.text(4)?,
            bytes: row.int(5)?,
            occurred_at: row.int(7)?,
            queued_at: row.int(8)?,
            not_before: row.int(9)?,
            attempts: row.int(10)?,
            owner: row.opt_text(11)?,
            lease_until: row.int(12)?,
            epoch: row.int(13)?,
            note: row.opt_text(14)?,
            died_at: row.opt_int(15)?,
            notified: row.int(16)?,
            params: row.text(17)?,
        };
        Ok((read, row.int(6)?))
    }

    /// Reads a row and verifies its checksum.
    pub(super) fn checked(row: &conn::Row) -> Result<Self, StoreError> {
        let (row, sum) = Self::read(row)?;
        match row.sum() == sum && row.weight() == row.bytes {
            true => Ok(row),
            false => Err(damaged(format!("the checksum of row {} does not match", row.id))),
        }
    }

    pub(super) fn values(self) -> Vec<Value> {
        let sum = self.sum();
        let values = vec![
            self.id.into(),
            self.key.into(),
            self.session.into(),
            self.tool.into(),
            self.client.into(),
            self.bytes.into(),
            sum.into(),
            self.occurred_at.into(),
            self.queued_at.into(),
            self.not_before.into(),
            self.attempts.into(),
            self.owner.into(),
            self.lease_until.into(),
            self.epoch.into(),
            self.note.into(),
            self.died_at.into(),
            self.notified.into(),
            self.params.into(),
        ];
        debug_assert_eq!(values.len(), COLUMNS);
        values
    }
}
