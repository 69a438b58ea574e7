//! Why something cannot be done with a file, and what a caller is told.

use std::io;
use std::path::{Path, PathBuf};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use crate::policy::{NoWorkFolder, PathRefused};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0:?} is not a valid path on this machine")]
    NoPath(String),
    #[error(transparent)]
    NoWorkFolder(#[from] NoWorkFolder),
    #[error("{} is not there", .0.display())]
    NotFound(PathBuf),
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: PathRefused },
    #[error("{} is {what}", path.display())]
    NotThis { path: PathBuf, what: &'static str },
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    #[error("{} was changed by somebody else in the meantime", .0.display())]
    Changed(PathBuf),
    #[error("the call was cancelled, or its time was up")]
    Stopped,
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl FileError {
    pub(crate) fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            io::ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}

impl From<FileError> for CallError {
    fn from(error: FileError) -> Self {
        let (code, hint) = match &error {
            FileError::NoPath(_) => (
                ErrorCode::InvalidArguments,
                "Give a full path, one that begins with ~/, or one relative to the working folder.",
            ),
            FileError::NoWorkFolder(_) => (
                ErrorCode::InvalidArguments,
                "Nothing was done. Without a working folder there are no relative paths: give a full path, or one that begins \
                 with ~/.",
            ),
            FileError::NotFound(_) => {
                (ErrorCode::NotFound, "Look at the folder it should be in with action \"list\".")
            }
            FileError::Refused { why: PathRefused::Denied, .. } => {
                (ErrorCode::Forbidden, "Nothing was done. Do without it: no argument changes this.")
            }
            FileError::Refused { .. } => (
                ErrorCode::Forbidden,
                "Nothing was done. Use a path that the policy allows, or ask the owner of the machine to change its \
                 node.toml.",
            ),
            FileError::Exists(_) => (
                ErrorCode::Conflict,
                "Nothing was done. Look at it with action \"stat\", then choose another path or say that it is to be replaced.",
            ),
            FileError::Changed(_) => (
                ErrorCode::Conflict,
                "Nothing was done. Read it again, and base the change on what is there now.",
            ),
            FileError::Stopped => {
                (ErrorCode::Cancelled, "Ask for less at a time, or give more time with `timeout_seconds`.")
            }
            FileError::NotThis { .. } => (ErrorCode::InvalidArguments, "Action \"stat\" says what it is."),
            FileError::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    (ErrorCode::Forbidden, "The user that the node runs as may not do this.")
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    (ErrorCode::ToolFailed, "The disk is full. What was there before is unchanged.")
                }
                _ => (ErrorCode::ToolFailed, "Look at it with action \"stat\"."),
            },
        };
        Self::new(code, error.to_string()).hint(hint)
    }
}
