//! The folder of a journal: reads the segments of a hub that did not stop cleanly, and disposes of them.
//!
//! Data that cannot be replayed is never skipped silently: it is logged, and the file is renamed and kept for
//! inspection.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_kit::private_file;

use super::JournalLocation;
use super::segment::{self, Segment};
use crate::StoreError;
use crate::writer::Records;

/// Extensions of a damaged segment, and of one that belongs to another database.
const DAMAGED: &str = "damaged";
const FOREIGN: &str = "foreign";

/// The records in the segments that are not in SQL.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    pub(super) records: Vec<Records>,
    pub(super) segments: Vec<PathBuf>,
    /// The damaged segments.
    pub(super) damaged: Vec<PathBuf>,
    last: Option<i64>,
}

impl Leftover {
    /// Number of the last record; those up to `position` are in SQL.
    pub(super) fn last(&self, position: i64) -> i64 {
        self.last.unwrap_or(position).max(position)
    }
}

impl JournalLocation {
    pub(super) fn segment(&self, first: i64) -> io::Result<Segment> {
        private_file::create_dir(&self.folder)?;
        Segment::create(&self.folder, self.id, first)
    }

    pub(super) fn failed(&self, source: io::Error) -> StoreError {
        StoreError::File { path: self.folder.display().to_string(), source: Arc::new(source) }
    }
}

/// Reads the records after number `position`, in order.
pub(super) fn read(location: &JournalLocation, position: i64) -> Result<Leftover, StoreError> {
    let mut leftover = Leftover::default();
    for path in segments(&location.folder).map_err(|e| location.failed(e))? {
        let bytes = fs_err::read(&path).map_err(|e| location.failed(e))?;
        let shown = path.display();
        let Some(scan) = segment::scan(&bytes) else {
            // The hub stopped before it wrote the header, and so any record.
            if !bytes.is_empty() && !segment::MAGIC.starts_with(&bytes[..bytes.len().min(8)]) {
                tracing::error!(path = %shown, "not a journal segment; the file is set aside");
                set_aside(&path, DAMAGED);
            } else {
                leftover.segments.push(path);
            }
            continue;
        };
        if scan.journal != location.id {
            tracing::error!(path = %shown, "the journal belongs to another database; it is set aside and not replayed");
            set_aside(&path, FOREIGN);
            continue;
        }
        if !scan.damaged.is_empty() {
            leftover.damaged.push(path.clone());
        }
        for damage in &scan.damaged {
            tracing::error!(path = %shown, ?damage, "the journal is damaged; the file will be kept");
        }
        if scan.torn > 0 {
            tracing::warn!(path = %shown, bytes = scan.torn, "dropped an incompletely written record");
        }
        for frame in scan.frames {
            let next = leftover.last(position) + 1;
            if frame.n > next {
                let (first, last) = (next, frame.n - 1);
                tracing::error!(
                    first,
                    last,
                    "records of the journal are missing: they were damaged or removed"
                );
            }
            if frame.n >= next {
                leftover.last = Some(frame.n);
                leftover.records.push(frame.records);
            }
        }
        leftover.segments.push(path);
    }
    Ok(leftover)
}

/// The segments in a folder, oldest first; empty if the folder does not exist.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut segments: Vec<_> = paths.into_iter().filter(|path| segment::is_segment(path)).collect();
    segments.sort();
    Ok(segments)
}

/// Whether a hub left no segments here.
pub(crate) fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(segments(folder)?.is_empty())
}

/// Removes a segment whose records are all in SQL, or renames and keeps it if it is damaged.
pub(super) fn dispose(path: &Path, damaged: bool) {
    if damaged {
        set_aside(path, DAMAGED);
    } else if let Err(error) = fs_err::remove_file(path) {
        tracing::warn!(%error, "cannot remove a segment of the journal");
    }
}

fn set_aside(path: &Path, why: &str) {
    let names = (1..).map(|number| {
        path.with_extension(if number == 1 { why.to_owned() } else { format!("{why}-{number}") })
    });
    let Some(name) = names.into_iter().find(|name| !name.exists()) else { return };
    match fs_err::rename(path, &name) {
        Ok(()) => {
            tracing::error!(path = %name.display(), "kept a segment that could not be replayed completely")
        }
        Err(error) => tracing::error!(%error, "cannot set a segment of the journal aside"),
    }
}
