//! What can go wrong with an outbox, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::{Counts, Limits};
use crate::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The source names the path.
    #[error("cannot {doing} of the outbox: {}", advice(source))]
    File { doing: &'static str, source: io::Error },
    #[error("there is no room on the disk for the outbox {}; make room and try again", path.display())]
    DiskFull { path: PathBuf },
    #[error("the outbox {} can only be read; it needs a folder that can be written to", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the outbox {} is held by another process for too long; try again", path.display())]
    Busy { path: PathBuf },
    #[error(
        "the outbox {} was written by a newer version of Plexus (format {version}); run that version or a newer one",
        path.display()
    )]
    Newer { path: PathBuf, version: i64 },
    #[error(
        "the outbox is full: {} writes wait and {} dead letters are kept, {} bytes together; the limits are {} rows and \
         {} bytes. Wait until the hub is back, or look at `plexus outbox list --dead`",
        counts.pending, counts.dead, counts.bytes, limits.rows, limits.bytes
    )]
    Full { counts: Counts, limits: Limits },
    #[error("a write of {bytes} bytes does not fit into an outbox of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("the idempotency key {key} is taken by another write that waits in the outbox")]
    KeyTaken { key: String },
    #[error("a write for the outbox cannot be used: {0}")]
    Invalid(&'static str),
    /// Damage that was there again right after the file had been put in order.
    #[error("the outbox {} is damaged and cannot be put in order; move it away and start again", path.display())]
    Damaged { path: PathBuf },
    #[error("the outbox {} failed: {}", path.display(), chain(source))]
    Database { path: PathBuf, source: StoreError },
}

/// An error of the database says only together with its cause what happened.
fn chain(error: &StoreError) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}

/// The usual reasons have a usual way out.
fn advice(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{source}; make room on the disk and try again")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            format!("{source}; the outbox needs a folder that can be written to, see --data-dir")
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

/// What a failed statement says about the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Damaged,
    Full,
    ReadOnly,
    Busy,
    Other,
}

/// Primary result codes of SQLite.
pub(super) fn trouble(error: &StoreError) -> Trouble {
    let source = match error {
        StoreError::Query { source, .. } | StoreError::Open { source, .. } => source,
        StoreError::Damaged { .. } => return Trouble::Damaged,
        _ => return Trouble::Other,
    };
    match source.as_ref() {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
            match code & 0xff {
                5 | 6 => Trouble::Busy,
                8 => Trouble::ReadOnly,
                // Also a schema that cannot be read, which is said with the code of any wrong statement.
                11 | 26 => Trouble::Damaged,
                1 if error.message().contains("malformed") || error.message().contains("no such") => {
                    Trouble::Damaged
                }
                13 => Trouble::Full,
                // Reading less than was asked for: a file that is shorter than what it says of itself.
                10 if code == 522 => Trouble::Damaged,
                // No room for the memory that the processes share.
                10 if code == 4874 => Trouble::Full,
                _ => Trouble::Other,
            }
        }
        // A column that holds what was never put there.
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Trouble::Damaged,
        _ => Trouble::Other,
    }
}

/// The error for people.
pub(super) fn told(path: &Path, source: StoreError) -> OutboxError {
    let path = path.to_owned();
    match trouble(&source) {
        Trouble::Damaged => OutboxError::Damaged { path },
        Trouble::Full => OutboxError::DiskFull { path },
        Trouble::ReadOnly => OutboxError::ReadOnly { path },
        Trouble::Busy => OutboxError::Busy { path },
        Trouble::Other => OutboxError::Database { path, source },
    }
}
