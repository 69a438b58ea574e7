//! What differs between databases: opening them, their schema, beginning a transaction.
//!
//! A second database is a second file here and a second arm in [`Connection`] and [`crate::conn`];
//! the statements of the entities stay as they are.

pub(crate) mod sqlite;

use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

/// A connection to one of the databases we speak to.
pub(crate) enum Connection {
    Sqlite(PoolConnection<Sqlite>),
}

impl Connection {
    /// Takes the write lock at once, so that a transaction never fails halfway for want of it.
    pub(crate) fn begin_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
        }
    }
}
