//! The audit table, as an attacker with access to the file sees and changes it.
//!
//! Hashes are computed from the documentation, not with the code of the hub.

use std::path::Path;

use aws_lc_rs::digest;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

/// The hashed columns in order. They follow the hash of the previous entry.
const HASHED: &str = "hub, CAST(n AS TEXT), CAST(at AS TEXT), phase, call_id, token_id, actor, session_id, tool, \
                      via, outcome, detail";

pub(crate) struct AuditTable(SqliteConnection);

impl AuditTable {
    pub(crate) async fn open(data_dir: &Path) -> Self {
        let options = SqliteConnectOptions::new().filename(data_dir.join("plexus.db"));
        Self(options.connect().await.expect("the database opens"))
    }

    /// Runs a statement; returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> u64 {
        let done = sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e}")).rows_affected()
    }

    /// The only value of a query.
    pub(crate) async fn text(&mut self, sql: &str) -> Option<String> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await;
        row.unwrap_or_else(|e| panic!("{sql}: {e}")).get(0)
    }

    /// Swaps two entries.
    pub(crate) async fn swap(&mut self, one: i64, other: i64) {
        for (from, to) in [(one, -1), (other, one), (-1, other)] {
            let changed = self.execute(&format!("UPDATE audit SET n = {to} WHERE n = {from}")).await;
            assert_eq!(changed, 1, "one entry {from}");
        }
    }

    /// Recomputes the hash of one entry.
    pub(crate) async fn rehash(&mut self, n: i64) {
        let prev = self.text(&format!("SELECT prev_hash FROM audit WHERE n = {n}")).await;
        let hash = self.computed(n, &prev.expect("a hash")).await;
        self.execute(&format!("UPDATE audit SET hash = '{hash}' WHERE n = {n}")).await;
    }

    /// Recomputes all hashes from this entry on, so that the chain is consistent.
    pub(crate) async fn rewrite_from(&mut self, first: i64) {
        let last = self.text("SELECT CAST(MAX(n) AS TEXT) FROM audit").await.expect("entries");
        let before = format!("SELECT hash FROM audit WHERE n = {}", first - 1);
        let mut prev = self.text(&before).await.expect("an entry before");
        for n in first..=last.parse().expect("a number") {
            let hash = self.computed(n, &prev).await;
            let sql = format!("UPDATE audit SET prev_hash = '{prev}', hash = '{hash}' WHERE n = {n}");
            assert_eq!(self.execute(&sql).await, 1);
            prev = hash;
        }
    }

    /// The hash of an entry that follows `prev`.
    pub(crate) async fn computed(&mut self, n: i64, prev: &str) -> String {
        let sql = format!("SELECT {HASHED} FROM audit WHERE n = {n}");
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut self.0).await.expect("the entry");
        let mut context = digest::Context::new(&digest::SHA256);
        let columns = (0..row.len()).map(|column| row.get::<Option<String>, _>(column));
        for value in std::iter::once(Some(prev.to_owned())).chain(columns) {
            let length = value.as_ref().map_or(u64::MAX, |text| text.len() as u64);
            context.update(&length.to_be_bytes());
            context.update(value.unwrap_or_default().as_bytes());
        }
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
