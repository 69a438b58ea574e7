//! Differences between the databases: opening, schema, transactions, and the handling of failed connections.
//!
//! The statements of the entities are shared.

/// The migrations of one database: files of the same names in `migrations/sqlite` and `migrations/postgres`, in
/// order. Landed ones are never edited; a change is a new file, listed here.
macro_rules! migrations {
    ($database:literal) => {
        $crate::dialect::migrations! { $database:
            "0001_call_path",
            "0002_operate",
            "0003_upstream_pins",
            "0004_upstream_credentials",
            "0005_asking",
            "0006_nodes",
            "0007_session_folder",
        }
    };
    ($database:literal: $($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../migrations/", $database, "/", $name, ".sql")))),+]
    };
}
pub(crate) use migrations;

pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use plexus_kit::{ExposeSecret, Secret};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool};

use crate::{Conn, StoreError};

/// A connection to one of the supported databases.
pub(crate) enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Connection {
    /// On SQLite, acquires the write lock immediately, so that a transaction never fails midway because of
    /// it. On PostgreSQL, waits for the transactions of other hubs in one round trip: all of them increment
    /// the event position, so they are serialized anyway, and concurrent ones could deadlock.
    pub(crate) fn begin_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN; SELECT pg_advisory_xact_lock(8100961397773631607)",
        }
    }

    /// How multiple rows are passed to one statement.
    ///
    /// SQLite compiles a statement for every number of rows, which costs more than storing them. Therefore
    /// there are statements for a few numbers, padded with empty rows.
    pub(crate) fn rows_as(&self) -> RowsAs {
        match self {
            Self::Sqlite(_) => RowsAs::Padded,
            Self::Postgres(_) => RowsAs::Placeholders,
        }
    }

    /// SQL for a part of an event's payload as text, or null if it is missing. `path` must not contain input.
    pub(crate) fn payload_text(&self, path: &[&str]) -> String {
        match self {
            Self::Sqlite(_) => format!("CAST(payload ->> '$.{}' AS TEXT)", path.join(".")),
            // PostgreSQL text cannot contain U+0000.
            Self::Postgres(_) => format!(
                "CASE WHEN payload LIKE '%\\\\u0000%' THEN NULL ELSE CAST(payload AS json) #>> '{{{}}}' END",
                path.join(",")
            ),
        }
    }

    /// SQL for a count in an event's payload, or null if it is not a count.
    pub(crate) fn payload_count(&self, name: &str) -> String {
        let text = self.payload_text(&[name]);
        let is_count = match self {
            Self::Sqlite(_) => format!("{text} NOT GLOB '*[^0-9]*'"),
            Self::Postgres(_) => format!("({text}) ~ '^[0-9]+$'"),
        };
        format!("CASE WHEN {is_count} AND length({text}) BETWEEN 1 AND 15 THEN CAST({text} AS BIGINT) END")
    }

    /// Begins a read-only transaction on a snapshot of the database.
    pub(crate) fn snapshot_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN",
            Self::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// Returns a row if there is a table named `$1`.
    pub(crate) fn has_table_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
            Self::Postgres(_) => {
                "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1"
            }
        }
    }

    /// Returns the columns of the table named `$1`: the name, 1 if it holds integers or 0 if it holds text, and the
    /// position in the primary key, from 1, or 0. Migrations use no other types.
    pub(crate) fn columns_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => {
                "SELECT name, CASE type WHEN 'BIGINT' THEN 1 WHEN 'TEXT' THEN 0 END, pk \
                 FROM pragma_table_info($1) ORDER BY cid"
            }
            Self::Postgres(_) => {
                "SELECT c.column_name::text, (CASE c.data_type WHEN 'bigint' THEN 1 WHEN 'text' THEN 0 END)::bigint, \
                        COALESCE(k.ordinal_position, 0)::bigint \
                 FROM information_schema.columns c \
                 LEFT JOIN (information_schema.key_column_usage k \
                            JOIN information_schema.table_constraints t USING (constraint_schema, constraint_name)) \
                   ON t.constraint_type = 'PRIMARY KEY' AND k.table_schema = c.table_schema \
                      AND k.table_name = c.table_name AND k.column_name = c.column_name \
                 WHERE c.table_schema = current_schema() AND c.table_name = $1 ORDER BY c.ordinal_position"
            }
        }
    }

    /// Size of the database in bytes.
    pub(crate) fn size_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
            Self::Postgres(_) => "SELECT pg_database_size(current_database())",
        }
    }

    /// Kind and version of the database.
    pub(crate) fn version_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SELECT 'SQLite ' || sqlite_version()",
            Self::Postgres(_) => "SELECT 'PostgreSQL ' || current_setting('server_version')",
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgresql",
        }
    }
}

/// See [`Connection::rows_as`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowsAs {
    Padded,
    Placeholders,
}

/// Schema version required by this program, for every database.
pub(crate) const SCHEMA: i64 = sqlite::MIGRATIONS.len() as i64;

/// The tables that the migrations create, in order, so each follows the tables it references.
pub(crate) fn created_tables() -> impl Iterator<Item = &'static str> {
    let statements = sqlite::MIGRATIONS.iter().flat_map(|(_, sql)| sql.split("CREATE TABLE ").skip(1));
    statements.filter_map(|statement| statement.split_whitespace().next())
}

/// The pool of read-only connections.
#[derive(Clone)]
pub(crate) enum Readers {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Readers {
    pub(crate) async fn acquire(&self) -> Result<Conn, StoreError> {
        let acquired = match self {
            Self::Sqlite(pool) => pool.acquire().await.map(Connection::Sqlite),
            Self::Postgres(pool) => pool.acquire().await.map(Connection::Postgres),
        };
        acquired.map(Conn).map_err(StoreError::query("waiting for a reader"))
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// The database that a URL names.
pub(crate) enum Location {
    Sqlite(PathBuf),
    Postgres(Box<postgres::Server>),
}

impl Location {
    /// SQLite in the data folder, unless a URL names another database.
    pub(crate) fn new(data_dir: &std::path::Path, url: Option<&Secret>) -> Result<Self, StoreError> {
        let Some(url) = url else { return Ok(Self::Sqlite(data_dir.join("plexus.db"))) };
        let url = url.expose_secret();
        // Contains only the scheme: the rest may contain a password.
        let (scheme, rest) = url.split_once(':').unwrap_or(("a URL without a scheme", ""));
        let unsupported = || StoreError::UnsupportedUrl(scheme.to_owned());
        match scheme {
            "postgres" | "postgresql" if rest.starts_with("//") => {
                postgres::Server::new(url).map(|server| Self::Postgres(Box::new(server)))
            }
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let is_path = !path.is_empty() && !path.starts_with(':') && !path.contains('?');
                is_path.then(|| Self::Sqlite(PathBuf::from(path))).ok_or_else(unsupported)
            }
            _ => Err(unsupported()),
        }
    }
}

impl Location {
    /// The folder of the journal: beside a SQLite file, otherwise in the data folder. The lock of the
    /// database also protects it.
    pub(crate) fn journal(&self, data_dir: &std::path::Path) -> PathBuf {
        match self {
            Self::Sqlite(path) => path.with_extension("journal"),
            Self::Postgres(_) => data_dir.join("plexus.journal"),
        }
    }
}

/// Omits user and password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(server) => server.fmt(f),
        }
    }
}

/// File names without extension, and SQL. The version is the position, which the name repeats.
type Migrations = &'static [(&'static str, &'static str)];

fn migrator(migrations: Migrations) -> Migrator {
    let migrations = migrations.iter().zip(1..).map(|((name, sql), version)| {
        let description = name.split_once('_').map_or(*name, |(_, description)| description);
        let sql = sqlx::SqlStr::from_static(sql);
        let description = Cow::Owned(description.replace('_', " "));
        Migration::new(version, description, MigrationType::Simple, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
mod tests;
