//! The store's id, created with it, so that a reinstalled store is not mistaken for its predecessor.
//!
//! Stored as two numbers in `meta`.

use uuid::Uuid;

use crate::{Conn, StoreError};

const HALVES: [&str; 2] = ["store_id:high", "store_id:low"];

const STARTS: &str = "store_id:starts";

impl Conn {
    /// Counts a start of the store's owner; returns the number of starts including this one.
    pub async fn count_start(&mut self) -> Result<u64, StoreError> {
        let sql = "INSERT INTO meta (key, value) VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET value = meta.value + 1";
        self.execute("counting a start", sql, vec![STARTS.into()]).await?;
        let sql = "SELECT value FROM meta WHERE key = $1";
        let row = self.row("reading the count of starts", sql, vec![STARTS.into()]).await?;
        let row = row.ok_or_else(|| StoreError::damaged("meta", "the count of starts is missing"))?;
        Ok(row.int(0)?.cast_unsigned())
    }

    /// The id of the store, created if it has none.
    pub async fn own_store_id(&mut self) -> Result<Uuid, StoreError> {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        let mut halves = [0; 2];
        for ((key, fresh), half) in HALVES.iter().zip([high, low]).zip(&mut halves) {
            let sql = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
            self.execute("creating the store's id", sql, vec![(*key).into(), fresh.cast_signed().into()])
                .await?;
            let sql = "SELECT value FROM meta WHERE key = $1";
            let row = self.row("reading the store's id", sql, vec![(*key).into()]).await?;
            let row = row.ok_or_else(|| StoreError::damaged("meta", "the store's id is missing"))?;
            *half = row.int(0)?.cast_unsigned();
        }
        Ok(Uuid::from_u64_pair(halves[0], halves[1]))
    }
}
