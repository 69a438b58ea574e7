//! The folders of runs: one for each, for its owner only, gone when the run is.
//!
//! A folder comes into being under a name that nobody looks at, with its lock already held, and is then renamed. So whoever
//! finds one can tell by the lock alone whether its runner lives, and only the one who gets the lock clears up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::config::RUNS_FOLDER;
use plexus_kit::private_file;
use rustix::fs::{FlockOperation, flock};

use super::Record;

const RECORD: &str = "run.json";
const LOCK: &str = "lock";
/// Left by `plexus stop`, so that an end that was asked for is not taken for a crash.
const STOP: &str = "stop";
const UNFINISHED: &str = ".new-";
/// A record is small; what is longer is none of ours.
const MAX_RECORD: usize = 1 << 20;

/// All runs of a data folder.
#[derive(Debug, Clone)]
pub struct Runs(PathBuf);

/// The folder of one run, by whoever holds its lock.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Runs {
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self(data_dir.join(RUNS_FOLDER))
    }

    /// A folder for a run, which nobody else has.
    pub fn create(&self, id: &str) -> io::Result<Scratch> {
        private_file::create_dir(&self.0)?;
        let unfinished = self.0.join(format!("{UNFINISHED}{id}"));
        private_file::create_dir(&unfinished)?;
        let lock = private_file::open(&unfinished.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = self.0.join(id);
        fs::rename(&unfinished, &path)?;
        Ok(Scratch { path, _lock: lock })
    }

    /// Every run there is, oldest first, as its record says; what cannot be read is left out.
    #[must_use]
    pub fn list(&self) -> Vec<Record> {
        let folders = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut records: Vec<Record> =
            folders.filter_map(|folder| read(&folder.path()).filter(|record| is_id(&record.id))).collect();
        records.sort_by_key(|record| record.started_at);
        records
    }

    /// The record of a run as it is now.
    #[must_use]
    pub fn read(&self, id: &str) -> Option<Record> {
        is_id(id).then(|| read(&self.0.join(id))).flatten()
    }

    /// The folder of a run whose runner is gone; none where it lives, or somebody else clears up already.
    #[must_use]
    pub fn abandoned(&self, id: &str) -> Option<Scratch> {
        if !is_id(id) {
            return None;
        }
        let path = self.0.join(id);
        // Not `open`, which would make one in a folder that is being removed.
        let lock = fs::OpenOptions::new().read(true).write(true).open(path.join(LOCK)).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Scratch { path, _lock: lock.into_parts().0 })
    }

    /// Says that the end of a run was asked for.
    pub fn ask_to_stop(&self, id: &str) -> io::Result<()> {
        private_file::write_unsynced(&self.0.join(id).join(STOP), b"")
    }

    /// Removes what was never finished, and folders without a record, where no runner holds them.
    pub fn sweep(&self) {
        for folder in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let (path, name) = (folder.path(), folder.file_name());
            let name = name.to_string_lossy();
            if !name.starts_with(UNFINISHED) && (!is_id(&name) || read(&path).is_some()) {
                continue;
            }
            let lock = fs::OpenOptions::new().read(true).write(true).open(path.join(LOCK));
            let held = lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
            // One that was begun this moment has no lock yet.
            let fresh = fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|made| made.elapsed().is_ok_and(|age| age < std::time::Duration::from_secs(60)));
            if !held && !fresh {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

impl Scratch {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record anew.
    pub fn save(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        private_file::write_unsynced(&self.path.join(RECORD), &text)
    }

    /// A file for the agent, and its path.
    pub fn file(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            private_file::create_dir(folder)?;
        }
        private_file::write_unsynced(&path, content.as_bytes())?;
        Ok(path)
    }

    /// Whether somebody asked for its end.
    #[must_use]
    pub fn is_to_stop(&self) -> bool {
        fs::symlink_metadata(self.path.join(STOP)).is_ok()
    }

    /// Leaves nothing but the record and the lock.
    pub fn strip(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name() == RECORD || entry.file_name() == LOCK {
                continue;
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = match is_folder {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
        }
    }

    /// Leaves nothing at all.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// Ids are ours; nothing else becomes a part of a path.
fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn read(folder: &Path) -> Option<Record> {
    let content = private_file::read(&folder.join(RECORD)).ok().flatten()?;
    if content.len() > MAX_RECORD {
        return None;
    }
    let record: Record = serde_json::from_slice(&content).ok()?;
    // A record tells of its own folder only.
    (folder.file_name()?.to_str()? == record.id).then_some(record)
}
