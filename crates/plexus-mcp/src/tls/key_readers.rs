//! Who besides the user of the hub can read its private key, and so show a server that it is the hub.
//!
//! As with what others can write: those of the group may be meant to, which is said; everyone is not.

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
    /// None where only the owner can, or where there is nothing.
    pub fn of(path: &Path) -> Option<Self> {
        let mode = fs_err::metadata(path).ok()?.permissions().mode() & 0o7777;
        (mode & BY_OTHERS != 0).then(|| Self { path: path.to_owned(), mode })
    }

    /// Every user of the machine, not only those of its group.
    pub fn is_everyone(&self) -> bool {
        self.mode & BY_EVERYONE != 0
    }
}

/// Goes on after the name of the key.
impl fmt::Display for KeyReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.is_everyone() { "every user of this machine" } else { "every user of its group" };
        let path = shell::word(&self.path.display().to_string());
        write!(f, "has mode {:04o}: {who} can read the key, and so be the hub; chmod go= {path}", self.mode)
    }
}
