//! The output of a job: a file that the command itself appends to, so that no process is between a command and its
//! output.
//!
//! The node limits the file from outside. When more than the limit is stored, it punches a hole in the middle of the
//! file: the remaining bytes keep their offsets, the file length stays the total output, and the command notices
//! nothing. While no node runs, nothing limits a job, which can then fill the disk like any other program.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::private_file;

/// The block size in which file systems release space.
const BLOCK: u64 = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Spool {
    path: PathBuf,
}

/// Consecutive bytes of an output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// The total size at the time of reading.
    pub(crate) size: u64,
    /// Requested bytes before `offset` that are no longer stored.
    pub(crate) skipped: u64,
}

/// A byte range that is no longer stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
}

impl Spool {
    /// Creates an empty spool.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        private_file::open(path)?;
        Ok(Self::at(path))
    }

    pub(super) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The total number of bytes written.
    pub(crate) fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// The space used on the disk.
    pub(super) fn on_disk(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Reads at most `limit` bytes from `offset`.
    pub(crate) fn part(&self, offset: u64, limit: usize) -> io::Result<Part> {
        let mut file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Part::default()),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let (mut begin, mut end) = (offset.min(size), size);
        if let Some(gap) = self.gap() {
            match begin < gap.start {
                true => end = gap.start,
                false => begin = begin.max(gap.end),
            }
        }
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take((end - begin).min(limit as u64)).read_to_end(&mut bytes)?;
        Ok(Part { offset: begin, bytes, size, skipped: begin - offset.min(size) })
    }

    fn gap(&self) -> Option<Gap> {
        let text = fs::read_to_string(self.path.with_extension("gap")).ok()?;
        let (start, end) = text.trim().split_once(' ')?;
        Some(Gap { start: start.parse().ok()?, end: end.parse().ok()? })
    }

    /// Releases the middle when more than `cap` bytes are stored: a quarter of `cap` remains at the beginning and
    /// half of it at the end.
    pub(super) fn trim(&self, cap: u64) -> io::Result<()> {
        let size = self.size();
        let before = self.gap().map_or(0, |gap| gap.end - gap.start);
        if size - before.min(size) <= cap {
            return Ok(());
        }
        let start = (cap / 4).next_multiple_of(BLOCK);
        let end = size.saturating_sub(cap / 2) / BLOCK * BLOCK;
        if end <= start {
            return Ok(());
        }
        // Written first, so that a hole is never read as output.
        let gap = format!("{start} {end}\n");
        private_file::write_unsynced(&self.path.with_extension("gap"), gap.as_bytes())?;
        punch(&self.path, start, end - start)
    }
}

#[cfg(target_os = "linux")]
fn punch(path: &Path, start: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    let file = fs::OpenOptions::new().write(true).open(path)?;
    fallocate(file.file(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, length)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &Path, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests;
