//! Detects configuration that users other than the hub's user can change.
//!
//! A server file names a program, so everyone who can write the file, or add another to its folder, can run
//! programs as the hub. Such permissions are reported as warnings, and the hub refuses to start a process
//! from a file that every user of the machine can write.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::shell;

use super::folder::Entry;
use super::problem::{Cause, Problem};
use super::{ServerConfig, Transport};

const BY_GROUP: u32 = 0o020;
const BY_EVERYONE: u32 = 0o002;
/// Without this bit on a folder, other users cannot access the files in it.
const SEARCHABLE_BY_EVERYONE: u32 = 0o001;

/// A file or folder that users other than its owner can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposure {
    path: PathBuf,
    mode: u32,
}

impl Exposure {
    /// None if only the owner can write, or if nothing exists at the path.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let mode = mode(path)?;
        (mode & (BY_GROUP | BY_EVERYONE) != 0).then(|| Self { path: path.to_owned(), mode })
    }

    /// Whether every user of the machine can write it, not only its group.
    #[must_use]
    pub fn is_to_everyone(&self) -> bool {
        self.mode & BY_EVERYONE != 0
    }

    /// The problem, worded to follow the path.
    #[must_use]
    pub fn description(&self) -> String {
        let who =
            if self.is_to_everyone() { "every user of this machine" } else { "every user of its group" };
        format!("has mode {:04o}: {who} can write to it, and so run commands as the hub", self.mode)
    }

    /// A shell command that repairs the mode.
    #[must_use]
    pub fn fix(&self) -> String {
        format!("chmod go-w {}", shell::word(&self.path.display().to_string()))
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; {}", self.path.display(), self.description(), self.fix())
    }
}

/// Applies exposure to the servers of a folder: adds a warning for each file or folder that others can write,
/// and refuses processes that every user could have configured.
pub(super) fn apply(dir: &Path, entries: &mut [Entry]) {
    let folder = Exposure::of(dir);
    let entered = mode(dir).is_some_and(|mode| mode & SEARCHABLE_BY_EVERYONE != 0);
    for entry in entries {
        let Ok(server) = &mut entry.server else { continue };
        let file = Exposure::of(&entry.file);
        let by_everyone = folder
            .iter()
            .chain(file.iter().filter(|_| entered))
            .find(|exposure| exposure.is_to_everyone() && is_process(server));
        if let Some(exposure) = by_everyone {
            entry.server = Err(vec![refused(&entry.file, exposure)]);
        } else {
            server.warnings.extend(folder.iter().chain(&file).map(ToString::to_string));
        }
    }
}

fn refused(file: &Path, exposure: &Exposure) -> Problem {
    let what = match exposure.path == file {
        true => exposure.description(),
        false => format!("is in a folder that {}", exposure.description()),
    };
    let (field, file) = (String::new(), file.to_owned());
    Problem { file, field, what, fix: exposure.fix(), cause: Cause::File }
}

fn is_process(server: &ServerConfig) -> bool {
    matches!(server.transport, Transport::Stdio(_))
}

fn mode(path: &Path) -> Option<u32> {
    fs_err::metadata(path).ok().map(|about| about.permissions().mode() & 0o7777)
}
