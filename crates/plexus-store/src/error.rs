//! What can go wrong between a caller and the database.

use std::sync::Arc;

/// Cloneable, because one failed commit fails every caller that shared it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the database {what}")]
    Open { what: String, source: Arc<sqlx::Error> },
    #[error(
        "the database {path} is in use by another hub{}; stop that one first, or give this one its own --data-dir",
        holder.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse { path: String, holder: Option<String> },
    #[error("cannot use the file {path}")]
    File { path: String, source: Arc<std::io::Error> },
    #[error("cannot bring the database to the current schema")]
    Migrate(#[source] Arc<sqlx::migrate::MigrateError>),
    #[error("{doing} failed")]
    Query { doing: &'static str, source: Arc<sqlx::Error> },
    /// A row holds what no version of Plexus writes.
    #[error("a row of {table} is damaged: {message}")]
    Damaged { table: &'static str, message: String },
    #[error("{0} is not supported as a database; use sqlite:/path/to/file.db, without parameters")]
    UnsupportedUrl(String),
    #[error("session {0} does not exist")]
    NoSuchSession(plexus_proto::SessionId),
    /// A fault of ours in a unit of work; what it wrote was undone.
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
        matches!(self, Self::Query { .. } | Self::Closed)
    }

    pub(crate) fn query(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Query { doing, source: Arc::new(source) }
    }

    pub(crate) fn damaged(table: &'static str, message: impl ToString) -> Self {
        Self::Damaged { table, message: message.to_string() }
    }
}
