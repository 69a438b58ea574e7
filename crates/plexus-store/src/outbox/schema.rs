//! The schema of the file, and its integrity check.
//!
//! It has its own version (`user_version`) and `application_id`, independent of the hub's migrations.
//! Triggers maintain the counts, so that checking a limit reads one row, regardless of the queue's length.

use super::row::{Row, damaged};
use crate::conn::{Sql, Statement};
use crate::{Conn, StoreError};

const VERSION: i64 = 1;
/// The version is stored as a multiple of this, so that a damaged version is invalid instead of newer.
const STEP: i64 = 1_000_003;
/// "PlxO".
const APPLICATION: i64 = 0x506c_784f;

/// Number of columns of `writes`, in the order expected by recovery. The long column is last, so that reading
/// only the others skips it.
pub(super) const COLUMNS: usize = 18;

const SCHEMA: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS writes (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL,
  tool TEXT NOT NULL,
  client TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  occurred_at INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  not_before INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  lease_until INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL DEFAULT 0,
  note TEXT,
  died_at INTEGER,
  told INTEGER NOT NULL DEFAULT 0,
  params TEXT NOT NULL
) STRICT",
    "CREATE INDEX IF NOT EXISTS queue ON writes (session, id) WHERE died_at IS NULL",
    "CREATE INDEX IF NOT EXISTS age ON writes (queued_at) WHERE died_at IS NULL",
    "CREATE INDEX IF NOT EXISTS dead ON writes (id) WHERE died_at IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS tally (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  last_id INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT",
    "INSERT OR IGNORE INTO tally VALUES (1, 0, 0, 0, 0)",
    "CREATE TRIGGER IF NOT EXISTS came AFTER INSERT ON writes BEGIN UPDATE tally SET \
     last_id = max(last_id, new.id), pending = pending + (new.died_at IS NULL), \
     dead = dead + (new.died_at IS NOT NULL), bytes = bytes + new.bytes; END",
    "CREATE TRIGGER IF NOT EXISTS went AFTER DELETE ON writes BEGIN UPDATE tally SET \
     pending = pending - (old.died_at IS NULL), dead = dead - (old.died_at IS NOT NULL), bytes = bytes - old.bytes; END",
    "CREATE TRIGGER IF NOT EXISTS turned AFTER UPDATE OF id, died_at ON writes BEGIN UPDATE tally SET \
     last_id = max(last_id, new.id), pending = pending + (new.died_at IS NULL) - (old.died_at IS NULL), \
     dead = dead + (new.died_at IS NOT NULL) - (old.died_at IS NOT NULL); END",
];

/// Rows read at a time during a check.
const AT_ONCE: i64 = 16;

/// Creates the tables. Afterwards the file itself has a header, so a file without one is damaged.
pub(super) async fn create(conn: &mut Conn) -> Result<(), StoreError> {
    let mut script = vec![Statement::fixed("BEGIN IMMEDIATE")];
    script.extend(SCHEMA.map(Statement::fixed));
    for (name, value) in [("application_id", APPLICATION), ("user_version", VERSION * STEP)] {
        script.push(Statement { sql: Sql::Built(format!("PRAGMA {name} = {value}")), values: vec![] });
    }
    script.push(Statement::fixed("COMMIT"));
    conn.script("creating an outbox", script).await?;
    fold(conn).await
}

/// Checkpoints the log into the file.
pub(super) async fn fold(conn: &mut Conn) -> Result<(), StoreError> {
    conn.rows("checkpointing an outbox", "PRAGMA wal_checkpoint(TRUNCATE)", vec![]).await?;
    Ok(())
}

async fn number(conn: &mut Conn, sql: &'static str) -> Result<i64, StoreError> {
    let row = conn.row("inspecting an outbox", sql, vec![]).await?;
    row.ok_or_else(|| damaged("a pragma without an answer"))?.int(0)
}

/// Version of the file, according to its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// The file is still empty.
    None,
    Ours,
    Newer(i64),
}

pub(super) async fn version(conn: &mut Conn) -> Result<Version, StoreError> {
    let version = number(conn, "PRAGMA user_version").await?;
    let application = number(conn, "PRAGMA application_id").await?;
    let tables = number(conn, "SELECT count(*) FROM sqlite_master").await?;
    match (application, version / STEP, version % STEP) {
        (0, 0, 0) if tables == 0 => Ok(Version::None),
        (APPLICATION, VERSION, 0) => Ok(Version::Ours),
        (APPLICATION, newer @ VERSION.., 0) => Ok(Version::Newer(newer)),
        _ => Err(damaged(format!("application {application:#x}, version {version}"))),
    }
}

/// Fails if SQLite or the checksum of a row reports damage. Also frees unused space and corrects the counts.
pub(super) async fn check(conn: &mut Conn) -> Result<(), StoreError> {
    let found = conn.row("checking an outbox", "PRAGMA integrity_check(1)", vec![]).await?;
    let found = found.ok_or_else(|| damaged("a check without an answer"))?.text(0)?;
    if found != "ok" {
        return Err(damaged(found));
    }
    let mut after = 0;
    loop {
        let sql = Row::select("WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = conn.rows("checking an outbox", sql, vec![after.into(), AT_ONCE.into()]).await?;
        for row in &rows {
            after = Row::checked(row)?.id;
        }
        if rows.is_empty() {
            break;
        }
    }
    conn.execute(
        "counting an outbox",
        "WITH all_of AS (SELECT coalesce(sum(died_at IS NULL), 0) AS pending, \
         coalesce(sum(died_at IS NOT NULL), 0) AS dead, coalesce(sum(bytes), 0) AS bytes, \
         coalesce(max(id), 0) AS last_id FROM writes) \
         UPDATE tally SET pending = (SELECT pending FROM all_of), dead = (SELECT dead FROM all_of), \
         bytes = (SELECT bytes FROM all_of), last_id = max(last_id, (SELECT last_id FROM all_of)) \
         WHERE (pending, dead, bytes) <> (SELECT pending, dead, bytes FROM all_of) \
         OR last_id < (SELECT last_id FROM all_of)",
        vec![],
    )
    .await?;
    if number(conn, "PRAGMA freelist_count").await? > 256 {
        conn.rows("freeing unused space", "PRAGMA incremental_vacuum", vec![]).await?;
    }
    Ok(())
}
