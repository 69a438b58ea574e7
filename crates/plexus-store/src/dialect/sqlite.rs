//! SQLite: a file in WAL mode, one writing connection, and a small pool of read-only ones.

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

/// Maximum number of readers; further ones wait.
const READERS: u32 = 4;
/// How long a reader waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(10);

/// Number of attempts to get a lock that is held, and the pause before each of them.
const LOCK_TRIES: usize = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Interval for checking the size of the write-ahead log, and the size above which it is checkpointed.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(200);
const CHECKPOINT_BYTES: u64 = 8 << 20;

/// Page size in bytes of the files opened by [`small`].
pub(crate) const SMALL_PAGE: u32 = 4096;

pub(super) const MIGRATIONS: Migrations = super::migrations!("sqlite");

/// An open database.
pub(crate) struct Opened {
    pub(crate) writer: Conn,
    pub(crate) readers: SqlitePool,
}

/// Ensures a single hub per file and per data folder: two hubs would extend the audit chain from the same
/// link. Held while anything may be written.
pub(crate) fn lock(lock_path: &Path, database: &Path) -> Result<File, StoreError> {
    let shown = lock_path.display().to_string();
    let failed = |source| StoreError::File { path: shown.clone(), source: Arc::new(source) };
    let mut file = private_file::open(lock_path).map_err(failed)?;
    let mut locked = file.try_lock();
    // A command that looks whether a hub runs holds a shared lock for a moment.
    for _ in 0..LOCK_TRIES {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
        locked = file.try_lock();
    }
    match locked {
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
    // Created here with private mode; the WAL files inherit it.
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
        // `keep_log_short` checkpoints beside the writer. The writer checkpoints itself, and stalls, only if
        // that does not keep up: at 64 MB.
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
        // A file does not disappear between two reads.
        .test_before_acquire(false)
        .acquire_timeout(ACQUIRE)
        .connect_lazy_with(base.read_only(true));
    let connection = writer.acquire().await.map_err(StoreError::query("opening the writer"))?;
    Ok(Opened { writer: Conn(Connection::Sqlite(connection)), readers })
}

/// The only connection to a small separate file that several processes share. Statements are durable when
/// they return, and memory use is small. The caller owns the schema; deleted data is erased from the file.
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
    // Setting it again would rewrite an existing file.
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

/// A dedicated read-only connection, usable while a hub has the file open. With `traceless`, no WAL files are
/// created if there are none.
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

/// Checkpoints the log regularly, without blocking readers and writers.
fn keep_log_short(path: &Path, options: SqliteConnectOptions, supervisor: &Supervisor) {
    let log = log_of(path);
    // In an earlier stage than the writer: the writer's connection must be the last to close.
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
                    tracing::warn!(%error, "cannot checkpoint the write-ahead log");
                    return;
                }
            }
        }
    });
}

/// The write-ahead log of a database file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}
