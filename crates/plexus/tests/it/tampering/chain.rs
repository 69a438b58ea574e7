//! The audit table from outside, as someone with access to the file sees and changes it.
//!
//! Hashes are computed here anew, from what the documentation says about them and not with the
//! code of the hub.

use std::path::Path;

use aws_lc_rs::digest;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

/// Columns in the order in which they are hashed, after the hash of the entry before.
const HASHED: &str = "hub, CAST(n AS TEXT), CAST(at AS TEXT), phase, call_id, token_id, actor, session_id, tool, \
                      via, outcome, detail";

pub(crate) struct Table(SqliteConnection);

impl Table {
    pub(crate) async fn open(data_dir: &Path) -> Self {
        let options = SqliteConnectOptions::new().filename(data_dir.join("plexus.db"));
        Self(options.connect().await.expect("the database opens"))
    }

    /// Runs a statement; returns how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: &str) -> u64 {
        let done = sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e}")).rows_affected()
    }

    /// The only value that a query gives.
    pub(crate) async fn text(&mut self, sql: &str) -> Option<String> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await;
        row.unwrap_or_else(|e| panic!("{sql}: {e}")).get(0)
    }

    /// Exchanges the places of two entries.
    pub(crate) async fn swap(&mut self, one: i64, other: i64) {
        for (from, to) in [(one, -1), (other, one), (-1, other)] {
            let changed = self.execute(&format!("UPDATE audit SET n = {to} WHERE n = {from}")).await;
            assert_eq!(changed, 1, "one entry {from}");
        }
    }

    /// Makes the hash of one entry fit its content, and nothing else.
    pub(crate) async fn rehash(&mut self, n: i64) {
        let prev = self.text(&format!("SELECT prev_hash FROM audit WHERE n = {n}")).await;
        let hash = self.computed(n, &prev.expect("a hash")).await;
        self.execute(&format!("UPDATE audit SET hash = '{hash}' WHERE n = {n}")).await;
    }

    /// Makes all hashes from this entry on fit, so that the chain is whole in itself.
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
