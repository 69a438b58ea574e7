//! A cache of detected versions: detecting a version runs a program, which can take seconds.
//!
//! An entry is valid as long as the program's file is unchanged. If the cache cannot be read or written, each
//! detection runs the program.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::{Clock, private_file};
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};

const FILE: &str = "versions.json";
/// Entries expire after this time: a launcher may start a newer release without a change of its own file.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The cache file.
#[derive(Debug)]
pub struct VersionCache {
    folder: Option<PathBuf>,
    clock: Clock,
}

/// By agent and path of the program.
pub(super) type CachedVersions = BTreeMap<String, CachedVersion>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CachedVersion {
    file: FileIdentity,
    asked_at: Timestamp,
    pub(super) answer: DetectedVersion,
}

/// A detected version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DetectedVersion {
    /// Whether it is the agent, not another program of the same name.
    pub(super) is_agent: bool,
    pub(super) version: Option<String>,
}

/// The properties that change when a program is replaced. Package managers set modification times arbitrarily, so the
/// inode change time is included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileIdentity {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
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

impl VersionCache {
    /// A cache in this folder, which is created if its parent exists.
    #[must_use]
    pub fn in_folder(folder: &Path, clock: Clock) -> Self {
        Self { folder: Some(folder.to_owned()), clock }
    }

    /// No cache.
    #[must_use]
    pub fn disabled() -> Self {
        Self { folder: None, clock: Clock::system() }
    }

    pub(super) fn read(&self) -> CachedVersions {
        let Some(folder) = &self.folder else { return CachedVersions::new() };
        let content = private_file::read(&folder.join(FILE)).ok().flatten();
        let mut cached: CachedVersions =
            content.and_then(|content| serde_json::from_slice(&content).ok()).unwrap_or_default();
        let now = self.clock.now();
        cached.retain(|_, entry| now.duration_since(entry.asked_at).unsigned_abs() < MAX_AGE);
        cached
    }

    /// A new entry.
    pub(super) fn entry(&self, program: &Path, answer: DetectedVersion) -> Option<CachedVersion> {
        Some(CachedVersion { file: FileIdentity::of(program)?, asked_at: self.clock.now(), answer })
    }

    /// Adds these entries to the cache.
    pub(super) fn add(&self, new: CachedVersions) {
        let Some(folder) = &self.folder else { return };
        // Do not create a folder in an empty home.
        if new.is_empty() || !folder.parent().is_some_and(Path::is_dir) {
            return;
        }
        let mut cached = self.read();
        cached.extend(new);
        let written = serde_json::to_vec_pretty(&cached).map_err(std::io::Error::from).and_then(|content| {
            private_file::create_dir(folder)?;
            private_file::write_unsynced(&folder.join(FILE), &content)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "cannot cache the versions of agents");
        }
    }
}

pub(super) fn key(agent: &str, program: &Path) -> String {
    format!("{agent} {}", program.display())
}

/// The entry of a program whose file is unchanged.
pub(super) fn cached<'k>(all: &'k CachedVersions, key: &str, program: &Path) -> Option<&'k DetectedVersion> {
    all.get(key)
        .filter(|entry| FileIdentity::of(program).as_ref() == Some(&entry.file))
        .map(|entry| &entry.answer)
}
