//! Who besides the user of the hub can change what it runs.
//!
//! A file names a program. Whoever can write it, or put another into its folder, has programs run as the hub. So what
//! others can write is said, and a process is not started by what every user of the machine could have written.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::shell;

use super::folder::Entry;
use super::problem::{Cause, Problem};
use super::{ServerConfig, Transport};

const BY_GROUP: u32 = 0o020;
const BY_EVERYONE: u32 = 0o002;
/// Without it nobody else gets at what is in a folder.
const ENTERED_BY_EVERYONE: u32 = 0o001;

/// A file or a folder that others can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposure {
    path: PathBuf,
    mode: u32,
}

impl Exposure {
    /// None where only the owner can write, or where there is nothing.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let mode = mode(path)?;
        (mode & (BY_GROUP | BY_EVERYONE) != 0).then(|| Self { path: path.to_owned(), mode })
    }

    /// Every user of the machine can write it, not only those of its group.
    #[must_use]
    pub fn is_to_everyone(&self) -> bool {
        self.mode & BY_EVERYONE != 0
    }

    /// Goes on after the path.
    #[must_use]
    pub fn what(&self) -> String {
        let who =
            if self.is_to_everyone() { "every user of this machine" } else { "every user of its group" };
        format!("has mode {:04o}: {who} can write to it, and so run commands as the hub", self.mode)
    }

    /// A command.
    #[must_use]
    pub fn fix(&self) -> String {
        format!("chmod go-w {}", shell::word(&self.path.display().to_string()))
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; {}", self.path.display(), self.what(), self.fix())
    }
}

/// What follows for the servers of a folder: each is warned about what others can write, and a process that everyone
/// could have written is refused.
pub(super) fn judge(dir: &Path, entries: &mut [Entry]) {
    let folder = Exposure::of(dir);
    let entered = mode(dir).is_some_and(|mode| mode & ENTERED_BY_EVERYONE != 0);
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
        true => exposure.what(),
        false => format!("is in a folder that {}", exposure.what()),
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
