//! Why a file of another agent is not changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::document::EditError;

#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The file, or its current state, does not allow a change.
    #[error("{} {why}", .path.display())]
    Refused { path: PathBuf, why: String, fix: String },
    /// Inserted content was changed by another program, or an entry of another origin uses our name.
    #[error("{} {why}", .path.display())]
    Conflict { path: PathBuf, why: String, fix: String },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("another command is changing files of agents, and has not ended after {0} seconds")]
    Busy(u64),
    #[error("{} changes continuously: another program overwrites every edit", .0.display())]
    Restless(PathBuf),
    #[error("{} cannot be used: {why}", .path.display())]
    Ledger { path: PathBuf, why: String },
    #[error("there is no backup {0:?}")]
    NoBackup(String),
}

impl BridgeError {
    /// The remedy.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::Refused { fix, .. } | Self::Conflict { fix, .. } => fix.clone(),
            Self::Io { .. } => "check the permissions of the file and its folder, and the disk".to_owned(),
            Self::Busy(_) => "try again when it has ended".to_owned(),
            Self::Restless(_) => "end the agent and try again".to_owned(),
            Self::Ledger { path, .. } => format!(
                "it records what was changed and how to undo it: repair it, or move {} away and remove the entries by hand",
                path.display()
            ),
            Self::NoBackup(_) => "`plexus connect --restore` lists the backups".to_owned(),
        }
    }

    /// Whether a retry may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Restless(_))
    }

    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    pub(crate) fn refused(path: &Path, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Refused { path: path.to_owned(), why: why.into(), fix: fix.into() }
    }

    pub(crate) fn conflict(path: &Path, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Conflict { path: path.to_owned(), why: why.into(), fix: fix.into() }
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), doing, source }
    }

    pub(crate) fn edit(path: &Path) -> impl Fn(EditError) -> Self {
        move |error| match error {
            EditError::Invalid(why) => {
                Self::refused(path, why, "correct the file, or let its agent rewrite it")
            }
            EditError::Unsupported(why) => {
                Self::refused(path, why, "add the entry by hand; `plexus connect --dry-run --json` prints it")
            }
        }
    }
}
