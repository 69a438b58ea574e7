//! Disk space used by the files of a program.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::process::Stat;

/// The unit of block counts.
const BLOCK: u64 = 512;

/// Bytes on the disk, and the number of files and folders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpaceUsed {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// The content of a folder, and the deleted files that these processes hold open. Stops after `limit` entries: one
/// more exceeds the limit in any case.
pub(super) fn measure(folder: &Path, limit: u64, by: &[Stat]) -> SpaceUsed {
    let mut space = SpaceUsed::default();
    let mut seen = HashSet::new();
    let mut count = |metadata: &std::fs::Metadata, space: &mut SpaceUsed| {
        if metadata.nlink() == 1 || metadata.is_dir() || seen.insert((metadata.dev(), metadata.ino())) {
            space.bytes += metadata.blocks() * BLOCK;
        }
    };
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // The path is too long for the system, because folders are nested endlessly.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                return SpaceUsed { entries: limit + 1, ..space };
            }
            // It was removed or is not readable; the latter is handled at removal.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            space.entries += 1;
            if space.entries > limit {
                return space;
            }
            // Does not follow symlinks.
            let Ok(metadata) = entry.metadata() else { continue };
            count(&metadata, &mut space);
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    for process in by {
        let open_files =
            std::fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
        // Follows the link, which leads to the open file.
        for metadata in open_files.filter_map(|open| std::fs::metadata(open.path()).ok()) {
            if metadata.is_file() && metadata.nlink() == 0 {
                count(&metadata, &mut space);
            }
        }
    }
    space
}

#[cfg(test)]
mod tests;
