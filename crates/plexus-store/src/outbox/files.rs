//! The file operations that an outbox depends on, as an interface for fault injection in tests.

use std::fmt;
use std::io;
use std::path::Path;

use fs_err as fs;
use plexus_kit::private_file;

/// File operations of an outbox, other than SQLite's own.
pub trait Files: fmt::Debug + Send + Sync {
    /// Creates the folder with mode 0700.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Opens the file for reading and writing; creates it with mode 0600 if it is missing.
    fn open(&self, path: &Path) -> io::Result<std::fs::File>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes the file; a missing file is not an error.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Writes and syncs a small file as a whole.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Syncs the folder, so that changed names survive a power loss.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The local file system.
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
