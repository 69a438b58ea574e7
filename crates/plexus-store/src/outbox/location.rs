//! Location of an outbox: its file, the files beside it, and the lock that protects it from being moved while
//! in use.
//!
//! Processes that use the file hold the lock shared, for one statement. A process that replaces the file
//! holds it exclusively. Therefore no process writes to a file that was renamed.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::OutboxError;
use super::files::Files;

const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_POLL: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct OutboxLocation {
    pub(super) path: PathBuf,
    pub(super) files: Arc<dyn Files>,
    lock: File,
}

impl OutboxLocation {
    pub(super) fn new(path: &Path, files: Arc<dyn Files>) -> Result<Self, OutboxError> {
        let folder = folder_of(path);
        files.create_folder(folder).map_err(OutboxError::file("make the folder"))?;
        let lock = files.open(&path.with_extension("lock")).map_err(OutboxError::file("open the lock"))?;
        Ok(Self { path: path.to_owned(), files, lock })
    }

    /// The path of the file with a suffix.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    }

    /// Syncs the folder, so that its names survive a power loss.
    pub(super) fn sync(&self) -> Result<(), OutboxError> {
        self.files.sync_folder(folder_of(&self.path)).map_err(OutboxError::file("sync the folder"))
    }

    /// Shared lock, to use the file.
    pub(super) async fn shared(&self) -> Result<LockGuard<'_>, OutboxError> {
        self.lock(File::try_lock_shared).await
    }

    /// Exclusive lock, to replace the file.
    pub(super) async fn exclusive(&self) -> Result<LockGuard<'_>, OutboxError> {
        self.lock(File::try_lock).await
    }

    async fn lock(&self, take: fn(&File) -> Result<(), TryLockError>) -> Result<LockGuard<'_>, OutboxError> {
        let began = Instant::now();
        loop {
            match take(&self.lock) {
                Ok(()) => return Ok(LockGuard(&self.lock)),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                    tokio::time::sleep(LOCK_POLL).await
                }
                Err(TryLockError::WouldBlock) => return Err(OutboxError::Busy { path: self.path.clone() }),
                Err(TryLockError::Error(source)) => {
                    return Err(OutboxError::file("acquire the lock")(source));
                }
            }
        }
    }

    /// Device and inode of the current file; `None` if it is missing.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        std::fs::metadata(&self.path).ok().map(|file| (file.dev(), file.ino()))
    }
}

/// Releases the lock on drop.
#[derive(Debug)]
pub(super) struct LockGuard<'a>(&'a File);

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // Fails only for a closed file.
        let _ = self.0.unlock();
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
