//! What each file came to when it was last read. A file that is as it was then need not be read for its own sake when
//! another has changed: what its references name may be something else by now, and a server that nobody has touched
//! would be restarted for it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::ServerConfig;
use super::problem::Problem;

type Outcome = Result<ServerConfig, Vec<Problem>>;

/// When a file was written, as of before it was read: one that is written meanwhile is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written(Option<SystemTime>);

impl Written {
    pub(super) fn of(file: &Path) -> Self {
        Self(std::fs::metadata(file).and_then(|about| about.modified()).ok())
    }
}

/// By which a file is known again. Its time alone does not do: a file system may give the same one to what is written
/// twice within some milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    written: Written,
    text: u64,
}

impl Version {
    pub(super) fn new(written: Written, text: &str) -> Self {
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

    /// None where another version was read last, or none.
    pub(super) fn get(&self, file: &Path, version: Version) -> Option<Outcome> {
        self.lock().get(file).filter(|(kept, _)| *kept == version).map(|(_, outcome)| outcome.clone())
    }

    pub(super) fn put(&self, file: &Path, version: Version, outcome: &Outcome) {
        self.lock().insert(file.to_owned(), (version, outcome.clone()));
    }

    /// Forgets all others.
    pub(super) fn retain(&self, files: &BTreeSet<&Path>) {
        self.lock().retain(|file, _| files.contains(file.as_path()));
    }
}
