//! What programs said of their versions, kept for later commands: to ask starts a program, which takes up to some seconds.
//!
//! An answer counts as long as the file of the program is the same one. What cannot be read or written is asked anew each time.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::{Clock, private_file};
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};

const FILE: &str = "versions.json";
/// After this time a program is asked again: one that starts another by its settings may start a newer one.
const FRESH: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Where answers are kept.
#[derive(Debug)]
pub struct Versions {
    folder: Option<PathBuf>,
    clock: Clock,
}

/// By agent and path of the program.
pub(super) type Known = BTreeMap<String, Entry>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    file: Identity,
    asked_at: Timestamp,
    pub(super) answer: Answer,
}

/// What a program said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// It is the agent, and not another program of its name.
    pub(super) is_agent: bool,
    pub(super) version: Option<String>,
}

/// What changes when a program is replaced. Package managers set times of modification to any value, so the time of the
/// change of the file counts too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(program: &Path) -> Option<Self> {
        let path = std::fs::canonicalize(program).ok()?;
        let file = std::fs::metadata(&path).ok()?;
        Some(Self {
            path,
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

impl Versions {
    /// Kept in this folder, which is made where the folder around it is there.
    #[must_use]
    pub fn in_folder(folder: &Path, clock: Clock) -> Self {
        Self { folder: Some(folder.to_owned()), clock }
    }

    /// Kept nowhere.
    #[must_use]
    pub fn nowhere() -> Self {
        Self { folder: None, clock: Clock::system() }
    }

    pub(super) fn read(&self) -> Known {
        let Some(folder) = &self.folder else { return Known::new() };
        let content = private_file::read(&folder.join(FILE)).ok().flatten();
        let mut known: Known =
            content.and_then(|content| serde_json::from_slice(&content).ok()).unwrap_or_default();
        let now = self.clock.now();
        known.retain(|_, entry| now.duration_since(entry.asked_at).unsigned_abs() < FRESH);
        known
    }

    /// An answer of now.
    pub(super) fn entry(&self, program: &Path, answer: Answer) -> Option<Entry> {
        Some(Entry { file: Identity::of(program)?, asked_at: self.clock.now(), answer })
    }

    /// Keeps these answers besides those that are there.
    pub(super) fn add(&self, new: Known) {
        let Some(folder) = &self.folder else { return };
        // An empty home stays empty.
        if new.is_empty() || !folder.parent().is_some_and(Path::is_dir) {
            return;
        }
        let mut known = self.read();
        known.extend(new);
        let written = serde_json::to_vec_pretty(&known).map_err(std::io::Error::from).and_then(|content| {
            private_file::create_dir(folder)?;
            private_file::write_unsynced(&folder.join(FILE), &content)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "the versions of agents are not kept");
        }
    }
}

pub(super) fn key(agent: &str, program: &Path) -> String {
    format!("{agent} {}", program.display())
}

/// The answer of a program that is the same file as when it was asked.
pub(super) fn known<'k>(all: &'k Known, key: &str, program: &Path) -> Option<&'k Answer> {
    all.get(key)
        .filter(|entry| Identity::of(program).as_ref() == Some(&entry.file))
        .map(|entry| &entry.answer)
}
