//! The folders of runs, one per run, accessible to the owner only and deleted with the run.
//!
//! A folder is created under a temporary name, locked, and then renamed. So the lock alone tells whether the runner
//! of a folder is alive, and only the process that acquires the lock cleans up.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::config::RUNS_FOLDER;
use plexus_kit::private_file;
use rustix::fs::{FlockOperation, flock};

use super::RunRecord;

const RECORD: &str = "run.json";
const LOCK: &str = "lock";
/// Created by `plexus stop`, so that a requested end does not count as a crash.
const STOP: &str = "stop";
const UNFINISHED: &str = ".new-";
/// Maximum size of a record; longer files are ignored.
const MAX_RECORD: usize = 1 << 20;

/// The folders of all runs in a data folder.
#[derive(Debug, Clone)]
pub struct RunFolders(PathBuf);

/// The folder of one run, with its lock held.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
}

impl RunFolders {
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self(data_dir.join(RUNS_FOLDER))
    }

    /// Creates and locks the folder of a run.
    pub fn create(&self, id: &str) -> io::Result<RunFolder> {
        private_file::create_dir(&self.0)?;
        let unfinished = self.0.join(format!("{UNFINISHED}{id}"));
        private_file::create_dir(&unfinished)?;
        let lock = private_file::open(&unfinished.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = self.0.join(id);
        fs::rename(&unfinished, &path)?;
        Ok(RunFolder { path, _lock: lock })
    }

    /// The records of all runs, oldest first; unreadable ones are skipped.
    #[must_use]
    pub fn list(&self) -> Vec<RunRecord> {
        let folders = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut records: Vec<RunRecord> =
            folders.filter_map(|folder| read(&folder.path()).filter(|record| is_id(&record.id))).collect();
        records.sort_by_key(|record| record.started_at);
        records
    }

    /// The current record of a run.
    #[must_use]
    pub fn read(&self, id: &str) -> Option<RunRecord> {
        is_id(id).then(|| read(&self.0.join(id))).flatten()
    }

    /// Locks the folder of a run whose runner is gone; none if it is alive, or another process is cleaning up.
    #[must_use]
    pub fn lock_abandoned(&self, id: &str) -> Option<RunFolder> {
        if !is_id(id) {
            return None;
        }
        let path = self.0.join(id);
        // Not `open`, which would create the file in a folder that is being removed.
        let lock = fs::OpenOptions::new().read(true).write(true).open(path.join(LOCK)).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(RunFolder { path, _lock: lock.into_parts().0 })
    }

    /// Records that the end of a run was requested.
    pub fn request_stop(&self, id: &str) -> io::Result<()> {
        private_file::write_unsynced(&self.0.join(id).join(STOP), b"")
    }

    /// Removes unfinished folders and folders without a record, unless a runner has locked them.
    pub fn remove_unfinished(&self) {
        for folder in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let (path, name) = (folder.path(), folder.file_name());
            let name = name.to_string_lossy();
            if !name.starts_with(UNFINISHED) && (!is_id(&name) || read(&path).is_some()) {
                continue;
            }
            let lock = fs::OpenOptions::new().read(true).write(true).open(path.join(LOCK));
            let is_locked =
                lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
            // A folder that was just created has no lock yet.
            let fresh = fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|made| made.elapsed().is_ok_and(|age| age < std::time::Duration::from_secs(60)));
            if !is_locked && !fresh {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

impl RunFolder {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record.
    pub fn save(&self, record: &RunRecord) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        private_file::write_unsynced(&self.path.join(RECORD), &text)
    }

    /// Writes a file for the agent; returns its path.
    pub fn write_file(&self, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            private_file::create_dir(folder)?;
        }
        private_file::write_unsynced(&path, content.as_bytes())?;
        Ok(path)
    }

    /// Whether the end of the run was requested.
    #[must_use]
    pub fn is_stop_requested(&self) -> bool {
        fs::symlink_metadata(self.path.join(STOP)).is_ok()
    }

    /// Removes everything except the record and the lock.
    pub fn remove_agent_files(&self) {
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

    /// Removes the folder.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// Whether the text has the form of a run id, so it is safe as part of a path.
fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn read(folder: &Path) -> Option<RunRecord> {
    let content = private_file::read(&folder.join(RECORD)).ok().flatten()?;
    if content.len() > MAX_RECORD {
        return None;
    }
    let record: RunRecord = serde_json::from_slice(&content).ok()?;
    // The record must belong to this folder.
    (folder.file_name()?.to_str()? == record.id).then_some(record)
}
