//! Users besides the hub's own who can read its private key, and so impersonate the hub.
//!
//! A key that the file's group can read is reported, because that may be intended; one that everyone can read is
//! refused.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::shell;

const BY_OTHERS: u32 = 0o077;
const BY_EVERYONE: u32 = 0o007;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyReaders {
    path: PathBuf,
    mode: u32,
}

impl KeyReaders {
    /// None if only the owner can read the file, or it does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        let mode = fs_err::metadata(path).ok()?.permissions().mode() & 0o7777;
        (mode & BY_OTHERS != 0).then(|| Self { path: path.to_owned(), mode })
    }

    /// Whether every user of the machine can read it, not only the group.
    pub fn is_everyone(&self) -> bool {
        self.mode & BY_EVERYONE != 0
    }
}

/// Continues a sentence that begins with the name of the key.
impl fmt::Display for KeyReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.is_everyone() { "every user of this machine" } else { "every user of its group" };
        let path = shell::word(&self.path.display().to_string());
        write!(
            f,
            "has mode {:04o}: {who} can read the key and impersonate the hub; run chmod go= {path}",
            self.mode
        )
    }
}
