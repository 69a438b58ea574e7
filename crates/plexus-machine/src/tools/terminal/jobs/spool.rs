//! What a job wrote: a file that the command itself appends to, so that nobody stands between a command and its output.
//!
//! The node bounds it from outside. Once more is kept than allowed, the middle is given back to the file system; the
//! bytes keep their places, the length of the file is what was written in all, and the command notices nothing. While
//! no node runs nobody does that: then a job can fill the disk as any other program can.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::private_file;

/// What file systems give back in.
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
    /// Of the whole, when it was read.
    pub(crate) size: u64,
    /// Bytes before `offset` that were asked for and are not kept.
    pub(crate) skipped: u64,
}

/// Bytes that are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
}

impl Spool {
    /// Makes an empty one.
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

    /// What was written in all.
    pub(crate) fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// Room that it takes on the disk.
    pub(super) fn on_disk(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// At most `limit` bytes from `offset` on.
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

    /// Gives the middle back when more than `cap` bytes are kept: a quarter of that is left of the beginning, half of it
    /// of the end.
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
        // First, so that nobody takes a hole for what was written.
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
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_middle_goes_and_everything_keeps_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(&folder.path().join("stdout")).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(spool.path()).unwrap();
        let line = |n: u64| format!("{n:015}\n");
        let cap = 64 << 10;
        for round in 0..8_u64 {
            for n in round * 4096..(round + 1) * 4096 {
                file.write_all(line(n).as_bytes()).unwrap();
            }
            spool.trim(cap).unwrap();
        }
        let size = 8 * 4096 * 16;
        assert_eq!(spool.size(), size, "the length is what was written");
        assert!(spool.on_disk() <= cap + BLOCK, "{} bytes on the disk", spool.on_disk());
        let gap = spool.gap().unwrap();
        let first = spool.part(0, 1 << 20).unwrap();
        assert_eq!(first.bytes.len() as u64, gap.start);
        assert!(first.bytes.starts_with(line(0).as_bytes()));
        let rest = spool.part(gap.start, 1 << 20).unwrap();
        assert_eq!((rest.offset, rest.skipped), (gap.end, gap.end - gap.start));
        assert!(rest.bytes.starts_with(line(gap.end / 16).as_bytes()));
        assert!(rest.bytes.ends_with(line(8 * 4096 - 1).as_bytes()));
        assert_eq!(spool.part(size + 5, 10).unwrap().bytes, b"");
    }
}
