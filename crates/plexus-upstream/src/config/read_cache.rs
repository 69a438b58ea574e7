//! The result of the last read of each file. When another file changes, an unchanged file is not read again:
//! the values behind its references may have changed, and a server that nobody touched would be restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::ServerConfig;
use super::problem::Problem;

type Outcome = Result<ServerConfig, Vec<Problem>>;

/// The modification time of a file, taken before it is read, so that a later write counts as a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModifiedAt(Option<SystemTime>);

impl ModifiedAt {
    pub(super) fn of(file: &Path) -> Self {
        Self(std::fs::metadata(file).and_then(|about| about.modified()).ok())
    }
}

/// Identifies a version of a file. The time alone is not enough: a file system may give the same time to two
/// writes within a few milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    written: ModifiedAt,
    text: u64,
}

impl Version {
    pub(super) fn new(written: ModifiedAt, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { written, text: hasher.finish() }
    }
}

#[derive(Debug, Default)]
pub(super) struct ReadCache(Mutex<BTreeMap<PathBuf, (Version, Outcome)>>);

impl ReadCache {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, (Version, Outcome)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None if a different version, or none, is cached.
    pub(super) fn get(&self, file: &Path, version: Version) -> Option<Outcome> {
        self.lock().get(file).filter(|(cached, _)| *cached == version).map(|(_, outcome)| outcome.clone())
    }

    pub(super) fn put(&self, file: &Path, version: Version, outcome: &Outcome) {
        self.lock().insert(file.to_owned(), (version, outcome.clone()));
    }

    /// Removes all other files.
    pub(super) fn retain(&self, files: &BTreeSet<&Path>) {
        self.lock().retain(|file, _| files.contains(file.as_path()));
    }
}
