//! A file that is transferred in several calls. Until it is complete it is stored next to its final path under a
//! predictable name, so that a later call can resume it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

#[cfg(target_os = "linux")]
use rustix::fs::RenameFlags;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{FileError, FileKind, FileLocation, Folder};

impl FileLocation {
    /// Refuses an entry that cannot be replaced by a file.
    pub(crate) fn check_free(&self) -> Result<(), FileError> {
        let what = match self.kind() {
            None | Some(FileKind::File) => return Ok(()),
            Some(FileKind::Folder) => "a folder, not a file",
            Some(FileKind::Link) => "a broken symlink",
            Some(FileKind::Special) => "a device, a pipe or a socket, which file tools do not open",
        };
        Err(FileError::NotThis { path: self.path(), what })
    }

    /// Opens the partial file, or creates it if `create` is set. Only its owner can read it.
    pub(crate) fn partial(&self, name: &OsStr, create: bool) -> Result<Option<File>, FileError> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = if create { flags | OFlags::CREATE } else { flags };
        let path = self.folder().path().join(name);
        match rustix::fs::openat(self.folder(), name, flags, Mode::from_raw_mode(0o600)) {
            Ok(fd) => {
                let stat = rustix::fs::fstat(&fd).map_err(|error| FileError::io(&path, error))?;
                // A file with several hard links could belong to someone else.
                match FileKind::of(&stat) == FileKind::File && stat.st_nlink == 1 {
                    true => Ok(Some(File::from(fd))),
                    false => {
                        Err(FileError::NotThis { path, what: "not a partial file of an earlier transfer" })
                    }
                }
            }
            Err(Errno::NOENT) if !create => Ok(None),
            Err(error) => Err(FileError::io(&path, error)),
        }
    }

    /// Moves the complete file to its final path, where it survives a power failure. Without `replace`, returns false
    /// if something already exists there.
    pub(crate) fn commit_partial(&self, name: &OsStr, file: &File, replace: bool) -> Result<bool, FileError> {
        let failed = |error: io::Error| FileError::io(&self.path(), error);
        if let Some(stat) = self.stat() {
            // Only root can change the owner. For other users the new file belongs to the node's user, as with any
            // editor.
            let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = rustix::fs::fchown(file, Some(owner), Some(group));
        }
        file.sync_all().map_err(failed)?;
        let put = match replace {
            true => rustix::fs::renameat(self.folder(), name, self.folder(), self.name()),
            false => rename_without_replace(self.folder(), name, self.name()),
        };
        match put {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(failed(error.into())),
        }
        // A folder that may be traversed but not read cannot be synced. The durability of the name then depends on
        // the system.
        let _ = rustix::fs::fsync(self.folder().as_fd());
        Ok(true)
    }

    pub(crate) fn remove_partial(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(self.folder(), name, AtFlags::empty());
    }

    /// Free bytes on the file system of this entry.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(self.folder()).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }
}

#[cfg(target_os = "linux")]
fn rename_without_replace(folder: &Folder, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Not every file system supports this flag. A hard link does not replace an existing file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_without_replace(folder: &Folder, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
    rustix::fs::unlinkat(folder, from, AtFlags::empty())
}
