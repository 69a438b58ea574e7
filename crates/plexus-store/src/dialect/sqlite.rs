//! SQLite: a file in WAL mode, one connection that writes, a small pool that only reads.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Durability;
use sqlx::SqlitePool;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::StoreError;

/// Readers at the same time; one more waits.
const READERS: u32 = 4;
/// How long a reader waits for a connection before it gives up.
const ACQUIRE: Duration = Duration::from_secs(10);

/// Never edited after it landed; a change is a new line.
const MIGRATIONS: &[(i64, &str, &str)] =
    &[(1, "call path", include_str!("../../migrations/sqlite/0001_call_path.sql"))];

pub(crate) struct SqlitePools {
    pub(crate) writer: SqlitePool,
    pub(crate) readers: SqlitePool,
}

pub(crate) async fn open(path: &Path, durability: Durability) -> Result<SqlitePools, StoreError> {
    let failed = |source| StoreError::Open { what: path.display().to_string(), source: Arc::new(source) };
    let base = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(200)
        .pragma("temp_store", "memory");
    let writer = base
        .clone()
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match durability {
            Durability::Process => SqliteSynchronous::Normal,
            Durability::Power => SqliteSynchronous::Full,
        })
        // A checkpoint every 16 MB of log instead of every 4: fewer stalls of the writer.
        .pragma("wal_autocheckpoint", "4096")
        .pragma("journal_size_limit", "67108864");
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(writer)
        .await
        .map_err(failed)?;
    migrator().run(&writer).await.map_err(|e| StoreError::Migrate(Arc::new(e)))?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .acquire_timeout(ACQUIRE)
        .connect_lazy_with(base.read_only(true));
    Ok(SqlitePools { writer, readers })
}

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.iter().map(|(version, description, sql)| {
        Migration::new(
            *version,
            Cow::Borrowed(*description),
            MigrationType::Simple,
            sqlx::SqlStr::from_static(sql),
            false,
        )
    });
    Migrator::with_migrations(migrations.collect())
}
