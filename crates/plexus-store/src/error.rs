//! Errors of the store.

use std::sync::Arc;

/// Cloneable, because one failed commit fails every caller that shared it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the database {what}")]
    Open { what: String, source: Arc<sqlx::Error> },
    #[error(
        "the database {path} is in use by another hub{}; stop that one first, or give this one its own {}",
        holder.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default(),
        if path.starts_with("postgres:") { "database" } else { "--data-dir" }
    )]
    InUse { path: String, holder: Option<String> },
    #[error("cannot use the file {path}")]
    File { path: String, source: Arc<std::io::Error> },
    #[error("cannot bring the database to the current schema")]
    Migrate(#[source] Arc<sqlx::migrate::MigrateError>),
    #[error("{doing} failed")]
    Query { doing: &'static str, source: Arc<sqlx::Error> },
    /// The connection broke during a commit; its outcome is only known after reconnecting.
    #[error(
        "lost the connection to the database during a commit; it is unknown whether the changes were stored"
    )]
    Uncertain { source: Arc<sqlx::Error> },
    /// A row contains a value that no version of Plexus writes.
    #[error("a row of {table} is damaged: {message}")]
    Damaged { table: &'static str, message: String },
    #[error(
        "{0} is not supported as a database; use sqlite:/path/to/file.db, without parameters, or \
         postgres://user@host/database"
    )]
    UnsupportedUrl(String),
    #[error(
        "the database URL has a parameter {name:?}, which is not supported; supported parameters: {known}"
    )]
    UrlParameter { name: String, known: String },
    #[error("the database URL is not valid; write postgres://user:password@host:5432/database")]
    Url { source: Arc<sqlx::Error> },
    /// A hub that started here would begin a second audit chain, or none that fits the signed head.
    #[error("the data folder {folder} belongs to {noted}, not to {given}")]
    OtherDatabase { folder: String, noted: String, given: String },
    /// The folder has the keys and the audit head of a hub whose database is missing.
    #[error(
        "{path} is missing: the data folder {folder} has the keys and the audit head of a hub, but not its database"
    )]
    DatabaseGone { folder: String, path: String },
    #[error("cannot use the archive: {0}")]
    Archive(String),
    #[error("the database is not empty: {table} contains rows; restore into a new database")]
    NotEmpty { table: &'static str },
    #[error("session {0} does not exist")]
    NoSuchSession(plexus_proto::SessionId),
    /// A bug in a unit of work; its writes were rolled back.
    #[error("a unit of work failed inside the store")]
    Panicked,
    /// The hub is stopping; nothing was written.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same request may succeed later without a change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Query { source, .. } => !is_our_fault(source),
            Self::Uncertain { .. } | Self::InUse { .. } | Self::Closed => true,
            _ => false,
        }
    }

    pub(crate) fn query(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Query { doing, source: Arc::new(source) }
    }

    /// There is currently no connection to the database.
    pub(crate) fn unavailable() -> Self {
        Self::query("reaching the database")(sqlx::Error::PoolTimedOut)
    }

    pub(crate) fn damaged(table: &'static str, message: impl ToString) -> Self {
        Self::Damaged { table, message: message.to_string() }
    }
}

/// Whether a statement can never succeed, as opposed to an unavailable, busy or full database.
fn is_our_fault(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => true,
        // PostgreSQL's error classes for bad data and invalid statements. Constraint violations are excluded:
        // another writer may have been faster, and a retry will see its data.
        sqlx::Error::Database(error) => {
            let class = error.code().map(|code| code.chars().take(2).collect::<String>());
            error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some()
                && matches!(class.as_deref(), Some("22" | "42"))
        }
        _ => false,
    }
}
