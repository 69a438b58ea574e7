//! Looks at a database without changing it, and without getting in the way of the hub that uses it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _, Row};

use crate::dialect::sqlite;
use crate::{StoreError, StoreOptions};

/// What a database says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Where it is, without a password.
    pub place: String,
    /// Kind and version of the database, for people.
    pub version: String,
    /// Newest migration that was applied; 0 for a database that has none.
    pub schema: i64,
    /// Newest migration that this program knows.
    pub known_schema: i64,
}

/// What there is; none where there is no database yet.
pub async fn inspect(options: &StoreOptions) -> Result<Option<Inspection>, StoreError> {
    let path = options.path()?;
    match path.try_exists() {
        Ok(true) => inspect_sqlite(&path).await.map(Some),
        Ok(false) => Ok(None),
        Err(source) => Err(StoreError::File { path: path.display().to_string(), source: Arc::new(source) }),
    }
}

async fn inspect_sqlite(path: &Path) -> Result<Inspection, StoreError> {
    let place = path.display().to_string();
    let failed = |source| StoreError::Open { what: place.clone(), source: Arc::new(source) };
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let connection = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        // Without a log nobody has it open: then not even the files for one are made.
        .immutable(!Path::new(&log).exists())
        .busy_timeout(Duration::from_secs(2))
        .disable_statement_logging();
    let mut connection = connection.connect().await.map_err(failed)?;
    let version: String =
        sqlx::query("SELECT sqlite_version()").fetch_one(&mut connection).await.map_err(failed)?.get(0);
    let tables = sqlx::query("SELECT 1 FROM sqlite_master WHERE name = '_sqlx_migrations'");
    let schema = match tables.fetch_optional(&mut connection).await.map_err(failed)? {
        None => 0,
        Some(_) => {
            let newest = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations");
            newest.fetch_one(&mut connection).await.map_err(failed)?.get(0)
        }
    };
    connection.close().await.map_err(failed)?;
    Ok(Inspection {
        place,
        version: format!("SQLite {version}"),
        schema,
        known_schema: sqlite::known_schema(),
    })
}
