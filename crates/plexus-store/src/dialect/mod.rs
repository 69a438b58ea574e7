//! What differs between databases: opening them, their schema, how a transaction begins, and what
//! becomes of a connection that failed.
//!
//! The statements of the entities are the same for all of them.

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

/// A connection to one of the databases we speak to.
pub(crate) enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Connection {
    /// On SQLite it takes the write lock at once, so that a transaction never fails halfway for want
    /// of it. On PostgreSQL it waits for the transactions of other hubs, in one round trip: they all count up the position
    /// of events, so they run one after the other anyway, and two that meet halfway would each hold what the other needs.
    pub(crate) fn begin_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN; SELECT pg_advisory_xact_lock(8100961397773631607)",
        }
    }

    /// How many rows are given to one statement.
    ///
    /// SQLite compiles a statement anew for every number of rows, which costs more than to store them: there are
    /// statements for a few numbers, and the rows that are missing are empty.
    pub(crate) fn rows_as(&self) -> RowsAs {
        match self {
            Self::Sqlite(_) => RowsAs::Padded,
            Self::Postgres(_) => RowsAs::Placeholders,
        }
    }

    /// A part of an event's payload as text, or null where it is not there. What is asked for has names of ours.
    pub(crate) fn payload_text(&self, path: &[&str]) -> String {
        match self {
            Self::Sqlite(_) => format!("CAST(payload ->> '$.{}' AS TEXT)", path.join(".")),
            // It has no text with U+0000 in it.
            Self::Postgres(_) => format!(
                "CASE WHEN payload LIKE '%\\\\u0000%' THEN NULL ELSE CAST(payload AS json) #>> '{{{}}}' END",
                path.join(",")
            ),
        }
    }

    /// A count in an event's payload, or null where it is none.
    pub(crate) fn payload_count(&self, name: &str) -> String {
        let text = self.payload_text(&[name]);
        let is_count = match self {
            Self::Sqlite(_) => format!("{text} NOT GLOB '*[^0-9]*'"),
            Self::Postgres(_) => format!("({text}) ~ '^[0-9]+$'"),
        };
        format!("CASE WHEN {is_count} AND length({text}) BETWEEN 1 AND 15 THEN CAST({text} AS BIGINT) END")
    }

    /// Begins a transaction that reads one state of the database.
    pub(crate) fn snapshot_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN",
            Self::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// A row if there is a table named `$1`.
    pub(crate) fn has_table_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
            Self::Postgres(_) => {
                "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1"
            }
        }
    }

    /// Bytes that the database takes.
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

/// Version of the schema that this program works with, in every database.
pub(crate) const SCHEMA: i64 = 7;

/// Connections that only read.
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

/// Which database a URL names.
pub(crate) enum Location {
    Sqlite(PathBuf),
    Postgres(Box<postgres::Server>),
}

impl Location {
    /// SQLite in the data folder unless a URL says otherwise.
    pub(crate) fn new(data_dir: &std::path::Path, url: Option<&Secret>) -> Result<Self, StoreError> {
        let Some(url) = url else { return Ok(Self::Sqlite(data_dir.join("plexus.db"))) };
        let url = url.expose_secret();
        // Only the scheme: the rest may carry a password.
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
    /// The folder of the journal: of a file beside it, else in the data folder. Whoever has the lock of
    /// the one has the other too.
    pub(crate) fn journal(&self, data_dir: &std::path::Path) -> PathBuf {
        match self {
            Self::Sqlite(path) => path.with_extension("journal"),
            Self::Postgres(_) => data_dir.join("plexus.journal"),
        }
    }
}

/// Without user and password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(server) => server.fmt(f),
        }
    }
}

/// Versions with their names and texts; never edited after they landed, a change is a new line.
type Migrations = &'static [(i64, &'static str, &'static str)];

fn migrator(migrations: Migrations) -> Migrator {
    let migrations = migrations.iter().map(|(version, description, sql)| {
        let sql = sqlx::SqlStr::from_static(sql);
        Migration::new(*version, Cow::Borrowed(*description), MigrationType::Simple, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_databases_have_the_same_versions_up_to_the_one_that_is_needed() {
        let versions = |list: super::Migrations| -> Vec<(i64, &str)> {
            list.iter().map(|(version, name, _)| (*version, *name)).collect()
        };
        assert_eq!(versions(super::sqlite::MIGRATIONS), versions(super::postgres::MIGRATIONS));
        let numbers: Vec<i64> = super::sqlite::MIGRATIONS.iter().map(|(version, ..)| *version).collect();
        assert_eq!(numbers, (1..=super::SCHEMA).collect::<Vec<_>>());
    }
}
