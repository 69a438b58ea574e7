//! Errors of an outbox, with their remedies.

use std::io;
use std::path::{Path, PathBuf};

use super::{Counts, Limits};
use crate::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The source names the path.
    #[error("cannot {doing} of the outbox: {}", advice(source))]
    File { doing: &'static str, source: io::Error },
    #[error("no disk space left for the outbox {}; free some space and try again", path.display())]
    DiskFull { path: PathBuf },
    #[error("the outbox {} is read-only; it needs a writable folder", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the outbox {} is locked by another process; try again", path.display())]
    Busy { path: PathBuf },
    #[error(
        "the outbox {} was written by a newer version of Plexus (format {version}); run that version or a newer one",
        path.display()
    )]
    Newer { path: PathBuf, version: i64 },
    #[error(
        "the outbox is full: {} waiting writes and {} dead letters with {} bytes in total; the limits are {} rows and \
         {} bytes. Wait until the hub is reachable, or review `plexus outbox list --dead`",
        counts.pending, counts.dead, counts.bytes, limits.rows, limits.bytes
    )]
    Full { counts: Counts, limits: Limits },
    #[error("a write of {bytes} bytes exceeds the outbox limit of {limit} bytes")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the idempotency key {key} is already used by another write in the outbox")]
    KeyTaken { key: String },
    #[error("the write is not valid: {0}")]
    Invalid(&'static str),
    /// Damage that reappeared right after the file was repaired.
    #[error("the outbox {} is damaged and cannot be repaired; move it away and try again", path.display())]
    Damaged { path: PathBuf },
    #[error("the outbox {} failed: {}", path.display(), chain(source))]
    Database { path: PathBuf, source: StoreError },
}

/// The message of a database error with its causes, which are needed to understand it.
fn chain(error: &StoreError) -> String {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

/// Adds the remedy for common causes.
fn advice(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{source}; free some disk space and try again")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            format!("{source}; the outbox needs a writable folder, see --data-dir")
        }
        _ => source.to_string(),
    }
}

impl OutboxError {
    /// Whether the same request may succeed later without a change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::Busy { .. } | Self::Full { .. } => true,
            Self::Database { source, .. } => source.is_retryable(),
            _ => false,
        }
    }

    /// `doing` ends with the kind of file: "open the lock", "remove the mark".
    pub(super) fn file(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { doing, source }
    }
}

/// Classification of a failed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    Damaged,
    Full,
    ReadOnly,
    Busy,
    Other,
}

/// Classifies an error by SQLite's primary result code.
pub(super) fn failure_kind(error: &StoreError) -> FailureKind {
    let source = match error {
        StoreError::Query { source, .. } | StoreError::Open { source, .. } => source,
        StoreError::Damaged { .. } => return FailureKind::Damaged,
        _ => return FailureKind::Other,
    };
    match source.as_ref() {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
            match code & 0xff {
                5 | 6 => FailureKind::Busy,
                8 => FailureKind::ReadOnly,
                // Includes an unreadable schema, which has the code of any invalid statement.
                11 | 26 => FailureKind::Damaged,
                1 if error.message().contains("malformed") || error.message().contains("no such") => {
                    FailureKind::Damaged
                }
                13 => FailureKind::Full,
                // A short read: the file is shorter than its header says.
                10 if code == 522 => FailureKind::Damaged,
                // No space for the shared memory file.
                10 if code == 4874 => FailureKind::Full,
                _ => FailureKind::Other,
            }
        }
        // A column contains a type that is never stored there.
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => FailureKind::Damaged,
        _ => FailureKind::Other,
    }
}

/// The user-facing error.
pub(super) fn outbox_error(path: &Path, source: StoreError) -> OutboxError {
    let path = path.to_owned();
    match failure_kind(&source) {
        FailureKind::Damaged => OutboxError::Damaged { path },
        FailureKind::Full => OutboxError::DiskFull { path },
        FailureKind::ReadOnly => OutboxError::ReadOnly { path },
        FailureKind::Busy => OutboxError::Busy { path },
        FailureKind::Other => OutboxError::Database { path, source },
    }
}
