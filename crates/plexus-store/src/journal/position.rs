//! The state of a hub's journal in SQL: its id, and the position up to which records were stored.
//!
//! Both are numbers in the `meta` table. They are part of every archive, so that a restored database knows
//! which records of the archived journal it contains.

use crate::conn::Statement;
use crate::{Conn, StoreError};

fn id_key(hub: &str) -> String {
    format!("journal_id:{hub}")
}

fn position_key(hub: &str) -> String {
    format!("journal_position:{hub}")
}

impl Conn {
    /// The id of the hub's journal, created if there is none.
    pub(crate) async fn own_journal(&mut self, hub: &str) -> Result<i64, StoreError> {
        let fresh =
            i64::from_le_bytes(uuid::Uuid::new_v4().into_bytes().first_chunk().copied().unwrap_or_default());
        for (key, value) in [(id_key(hub), fresh), (position_key(hub), 0)] {
            let sql = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
            self.execute("creating the journal's id", sql, vec![key.into(), value.into()]).await?;
        }
        let id = self.number(&id_key(hub)).await?;
        id.ok_or_else(|| StoreError::damaged("meta", "the id of the journal is missing"))
    }

    /// The id of the hub's journal, if it ever had one.
    pub(crate) async fn journal_id(&mut self, hub: &str) -> Result<Option<i64>, StoreError> {
        self.number(&id_key(hub)).await
    }

    /// Number of the last stored record of the hub's journal.
    pub(crate) async fn journal_position(&mut self, hub: &str) -> Result<i64, StoreError> {
        Ok(self.number(&position_key(hub)).await?.unwrap_or(0))
    }

    async fn number(&mut self, key: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT value FROM meta WHERE key = $1";
        let row = self.row("reading the state of the journal", sql, vec![key.into()]).await?;
        row.map(|row| row.int(0)).transpose()
    }
}

/// Records that the records up to number `through` are stored; run in the same transaction.
pub(crate) fn stored_statement(hub: &str, through: i64) -> Statement {
    Statement {
        sql: "UPDATE meta SET value = $1 WHERE key = $2".into(),
        values: vec![through.into(), position_key(hub).into()],
    }
}
