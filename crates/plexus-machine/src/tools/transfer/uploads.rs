//! Uploads in progress to this machine.
//!
//! Each is stored next to its final path, under a name derived from the path and the content, and has a record in the
//! node's folder with its progress and time. So a caller with the same file can resume it after any interruption.
//! Uploads without progress are removed after a day.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use fs_err as fs;
use plexus_kit::{Clock, hex, private_file};
use plexus_proto::Timestamp;
use serde::{Deserialize, Serialize};

use super::received::Received;
use crate::files::{FileError, FileLocation, Files};

/// The maximum number of concurrent uploads.
const MAX_UPLOADS: usize = 64;
/// The time without progress after which an upload is aborted: the first if its slot is needed, the second in any
/// case.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The record is updated after this number of bytes: at most so much is sent again after the node was killed.
const RECORD_INTERVAL: u64 = 8 << 20;

/// The announced size and hash, which identify an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Announced {
    pub(super) size: u64,
    pub(super) sha256: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// The final path.
    path: PathBuf,
    #[serde(flatten)]
    announced: Announced,
    received: u64,
    at: Timestamp,
}

/// An upload in progress.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) id: String,
    pub(super) file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    record: Record,
    received: Received,
    /// It is being moved to its final path.
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Uploads {
    folder: PathBuf,
    clock: Clock,
    open: Mutex<HashMap<String, Arc<Upload>>>,
}

/// The name of the partial file next to the final path.
pub(super) fn partial_name(id: &str) -> OsString {
    format!(".plexus-{id}.part").into()
}

fn id_of(path: &Path, announced: &Announced) -> String {
    let text = format!("{}\0{}\0{}", announced.sha256, announced.size, path.display());
    hex::encode(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

impl Uploads {
    pub(super) fn open(data_dir: &Path, clock: Clock) -> io::Result<Self> {
        let folder = data_dir.join("transfers");
        private_file::create_dir(&folder)?;
        Ok(Self { folder, clock, open: Mutex::default() })
    }

    /// Starts or resumes the upload to a path; `None` if there are too many.
    pub(super) fn begin(
        &self,
        files: &Files,
        location: &FileLocation,
        announced: &Announced,
    ) -> Result<Option<Arc<Upload>>, FileError> {
        self.sweep(files, MAX_AGE);
        if let Some(found) = self.find(location, announced)? {
            return Ok(Some(found));
        }
        if self.records().count() >= MAX_UPLOADS {
            self.sweep(files, IDLE_TIMEOUT);
        }
        if self.records().count() >= MAX_UPLOADS {
            return Ok(None);
        }
        let id = id_of(&location.path(), announced);
        let Some(file) = location.partial(&partial_name(&id), true)? else { return Ok(None) };
        // Without a record, its content is unknown.
        file.set_len(0).map_err(|error| FileError::io(&location.path(), error))?;
        let record =
            Record { path: location.path(), announced: announced.clone(), received: 0, at: self.clock.now() };
        self.store(id, file, record).map(Some)
    }

    /// The upload to a path, if it was started.
    pub(super) fn find(
        &self,
        location: &FileLocation,
        announced: &Announced,
    ) -> Result<Option<Arc<Upload>>, FileError> {
        let id = id_of(&location.path(), announced);
        if let Some(upload) = self.all().get(&id) {
            return Ok(Some(upload.clone()));
        }
        let Some(mut record) = self.record(&self.path_of(&id)) else { return Ok(None) };
        let Some(file) = location.partial(&partial_name(&id), false)? else {
            let _ = fs::remove_file(self.path_of(&id));
            return Ok(None);
        };
        let existing = file.metadata().map_err(|error| FileError::io(&location.path(), error))?.len();
        record.received = record.received.min(existing);
        self.store(id, file, record).map(Some)
    }

    fn store(&self, id: String, file: File, record: Record) -> Result<Arc<Upload>, FileError> {
        self.write(&id, &record)?;
        let mut all = self.all();
        let upload = all.entry(id.clone()).or_insert_with(|| {
            let state = State { received: Received::complete_bytes(record.received), record, closed: false };
            Arc::new(Upload { id, file, state: Mutex::new(state) })
        });
        Ok(upload.clone())
    }

    /// Records a part that was written to the disk.
    pub(super) fn part_received(&self, upload: &Upload, offset: u64, length: u64) -> Result<u64, FileError> {
        let (complete, record) = {
            let mut state = upload.state();
            state.received.add(offset, length);
            let complete = state.received.complete();
            state.record.at = self.clock.now();
            let due = complete >= state.record.received + RECORD_INTERVAL;
            if due {
                state.record.received = complete;
            }
            (complete, due.then(|| state.record.clone()))
        };
        if let Some(record) = record {
            self.write(&upload.id, &record)?;
        }
        Ok(complete)
    }

    /// The upload was completed or aborted.
    pub(super) fn forget(&self, id: &str) {
        self.all().remove(id);
        let _ = fs::remove_file(self.path_of(id));
    }

    /// Removes uploads without progress for the given time.
    fn sweep(&self, files: &Files, age: Duration) {
        let now = self.clock.now();
        let old = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default() >= age;
        for path in self.records().collect::<Vec<_>>() {
            let Some(id) = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned) else {
                continue;
            };
            let Some(record) = self.record(&path) else {
                let _ = fs::remove_file(&path);
                continue;
            };
            let latest = self.all().get(&id).map_or(record.at, |upload| upload.state().record.at);
            if !old(latest) {
                continue;
            }
            // Under the current policy; a file that it does not allow to remove stays.
            if let Ok(location) = files.write_target(&record.path) {
                location.remove_partial(&partial_name(&id));
            }
            tracing::info!(path = %record.path.display(), "an unfinished upload was aborted");
            self.forget(&id);
        }
    }

    fn records(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "json"))
    }

    fn record(&self, path: &Path) -> Option<Record> {
        let text = private_file::read(path).ok()??;
        serde_json::from_slice(&text).ok()
    }

    fn write(&self, id: &str, record: &Record) -> Result<(), FileError> {
        let path = self.path_of(id);
        let text = serde_json::to_vec(record).map_err(|error| FileError::io(&path, error))?;
        private_file::write_unsynced(&path, &text).map_err(|error| FileError::io(&path, error))
    }

    fn path_of(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Upload>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of contiguous bytes from the start.
    pub(super) fn complete(&self) -> u64 {
        self.state().received.complete()
    }

    /// Whether a part at this offset is accepted now.
    pub(super) fn accepts(&self, offset: u64) -> bool {
        let state = self.state();
        !state.closed && state.received.accepts(offset)
    }

    /// Accepts no more writes: its content is being hashed.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }
}
