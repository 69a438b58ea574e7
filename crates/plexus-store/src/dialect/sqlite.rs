//! SQLite: a file in WAL mode, one connection that writes, a small pool that only reads.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Durability, Stage, Supervisor, private_file};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection as _, SqlitePool};

use super::{Connection, Migrations, migrator};
use crate::{Conn, StoreError};

/// Readers at the same time; one more waits.
const READERS: u32 = 4;
/// How long a reader waits for a connection before it gives up.
const ACQUIRE: Duration = Duration::from_secs(10);

/// How often the size of the log is looked at, and from which size on it is folded into the file.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(200);
const CHECKPOINT_BYTES: u64 = 8 << 20;

/// Bytes of a page in the files of [`small`].
pub(crate) const SMALL_PAGE: u32 = 4096;

pub(super) const MIGRATIONS: Migrations = &[
    (1, "call path", include_str!("../../migrations/sqlite/0001_call_path.sql")),
    (2, "operate", include_str!("../../migrations/sqlite/0002_operate.sql")),
    (3, "upstream pins", include_str!("../../migrations/sqlite/0003_upstream_pins.sql")),
    (4, "upstream credentials", include_str!("../../migrations/sqlite/0004_upstream_credentials.sql")),
    (5, "asking", include_str!("../../migrations/sqlite/0005_asking.sql")),
    (6, "nodes", include_str!("../../migrations/sqlite/0006_nodes.sql")),
    (7, "session folder", include_str!("../../migrations/sqlite/0007_session_folder.sql")),
];

/// An open database.
pub(crate) struct Opened {
    pub(crate) writer: Conn,
    pub(crate) readers: SqlitePool,
}

/// One hub per file, and per data folder: two would each extend the audit chain from the same link.
/// Held for as long as something may be written.
pub(crate) fn lock(lock_path: &Path, database: &Path) -> Result<File, StoreError> {
    let shown = lock_path.display().to_string();
    let failed = |source| StoreError::File { path: shown.clone(), source: Arc::new(source) };
    let mut file = private_file::open(lock_path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(failed)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder =
                Some(holder).filter(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()));
            Err(StoreError::InUse { path: database.display().to_string(), holder })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

pub(crate) async fn open(
    path: &Path,
    durability: Durability,
    supervisor: &Supervisor,
) -> Result<Opened, StoreError> {
    let failed = |source| StoreError::Open { what: path.display().to_string(), source: Arc::new(source) };
    // Made by us, so that nobody else can read it, nor the log files that take their mode from it.
    let at = |source| StoreError::File { path: path.display().to_string(), source: Arc::new(source) };
    drop(private_file::open(path).map_err(at)?);
    let base = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(500)
        .disable_statement_logging()
        .pragma("temp_store", "memory");
    let writer = base
        .clone()
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match durability {
            Durability::Process => SqliteSynchronous::Normal,
            Durability::Power => SqliteSynchronous::Full,
        })
        // The log is folded into the file beside the writer, see `keep_log_short`. The writer does it
        // itself, and stalls, only when that does not keep up: at 64 MB.
        .pragma("wal_autocheckpoint", "16384")
        .pragma("journal_size_limit", "67108864");
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(writer)
        .await
        .map_err(failed)?;
    migrator(MIGRATIONS).run(&writer).await.map_err(|e| StoreError::Migrate(Arc::new(e)))?;
    keep_log_short(path, base.clone(), supervisor);
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        // A file does not go away between two reads.
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE)
        .connect_lazy_with(base.read_only(true));
    let connection = writer.acquire().await.map_err(StoreError::query("opening the writer"))?;
    Ok(Opened { writer: Conn(Connection::Sqlite(connection)), readers })
}

/// The one connection to a small file of its own, which several processes share: on the disk when a statement returns, and
/// with little memory. The schema is the caller's; what is deleted leaves nothing behind in the file.
pub(crate) async fn small(path: &Path) -> Result<Conn, StoreError> {
    let failed = |source| StoreError::Open { what: path.display().to_string(), source: Arc::new(source) };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .page_size(SMALL_PAGE)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(24)
        .disable_statement_logging()
        .pragma("cache_size", "-512")
        .pragma("fullfsync", "on")
        .pragma("journal_size_limit", "1048576")
        .pragma("secure_delete", "on")
        .pragma("temp_store", "memory")
        .pragma("wal_autocheckpoint", "256");
    // Said again to a file that has it, it would be written again.
    let options = match std::fs::metadata(path).map_or(0, |file| file.len()) {
        0 => options.auto_vacuum(SqliteAutoVacuum::Incremental),
        _ => options,
    };
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await
        .map_err(failed)?;
    Ok(Conn(Connection::Sqlite(pool.acquire().await.map_err(failed)?)))
}

/// A connection of one's own that only reads; a hub may use the file meanwhile.
/// Without a trace: where there is no log, none is made.
pub(crate) async fn reader(path: &Path, traceless: bool) -> Result<Conn, StoreError> {
    let failed = |source| StoreError::Open { what: path.display().to_string(), source: Arc::new(source) };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(traceless && !log_of(path).exists())
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.map_err(failed)?;
    Ok(Conn(Connection::Sqlite(pool.acquire().await.map_err(failed)?)))
}

/// Folds the log into the file now and then, without holding up those who read and write.
fn keep_log_short(path: &Path, options: SqliteConnectOptions, supervisor: &Supervisor) {
    let log = log_of(path);
    // Before the stage of the writer: at the end, the writer's connection must be the last.
    supervisor.spawn_restarting(Stage::Work, "checkpoint", move || {
        let (log, options) = (log.clone(), options.clone());
        async move {
            loop {
                tokio::time::sleep(CHECKPOINT_PAUSE).await;
                if std::fs::metadata(&log).map_or(0, |file| file.len()) < CHECKPOINT_BYTES {
                    continue;
                }
                let folded = async {
                    let mut connection = options.connect().await?;
                    sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await?;
                    connection.close().await
                };
                if let Err(error) = folded.await {
                    tracing::warn!(%error, "cannot fold the log into the database");
                    return;
                }
            }
        }
    });
}

/// What was written and is not in the file yet.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}
