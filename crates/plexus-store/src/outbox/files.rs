//! The steps on files that an outbox depends on, as a seam: a test lets each of them fail.

use std::fmt;
use std::io;
use std::path::Path;

use fs_err as fs;
use plexus_kit::private_file;

/// What an outbox does to files beside SQLite's own work.
pub trait Files: fmt::Debug + Send + Sync {
    /// Makes the folder with mode 0700.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Opens the file for reading and writing, and makes it with mode 0600 where it is missing.
    fn open(&self, path: &Path) -> io::Result<std::fs::File>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes the file; one that is not there is no error.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Writes a small file as a whole, to the disk.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Has names that came and went outlive a power cut.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The files of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalFiles;

impl Files for LocalFiles {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        private_file::create_dir(path)
    }

    fn open(&self, path: &Path) -> io::Result<std::fs::File> {
        private_file::open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        private_file::write(path, content)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }
}
