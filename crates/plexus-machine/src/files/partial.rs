//! A file that is brought to its place in many calls: beside it until it is complete, under a name that is known, so that
//! whoever goes on with it finds it again.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

#[cfg(target_os = "linux")]
use rustix::fs::RenameFlags;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{FileError, Folder, Kind, Place};

impl Place {
    /// Refuses what can be no file.
    pub(crate) fn check_free(&self) -> Result<(), FileError> {
        let what = match self.kind() {
            None | Some(Kind::File) => return Ok(()),
            Some(Kind::Folder) => "a folder and no file",
            Some(Kind::Link) => "a link that leads nowhere",
            Some(Kind::Special) => "a device, a pipe or a socket, which tools for files do not open",
        };
        Err(FileError::NotThis { path: self.path(), what })
    }

    /// The file beside the place, made if it is not there and `create` says so. Only its owner can read it.
    pub(crate) fn partial(&self, name: &OsStr, create: bool) -> Result<Option<File>, FileError> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let flags = if create { flags | OFlags::CREATE } else { flags };
        let path = self.folder().path().join(name);
        match rustix::fs::openat(self.folder(), name, flags, Mode::from_raw_mode(0o600)) {
            Ok(fd) => {
                let about = rustix::fs::fstat(&fd).map_err(|error| FileError::io(&path, error))?;
                // One with a second name could be somebody else's file.
                match Kind::of(&about) == Kind::File && about.st_nlink == 1 {
                    true => Ok(Some(File::from(fd))),
                    false => {
                        Err(FileError::NotThis { path, what: "not the part of a file that was left there" })
                    }
                }
            }
            Err(Errno::NOENT) if !create => Ok(None),
            Err(error) => Err(FileError::io(&path, error)),
        }
    }

    /// Puts the complete file in its place, where it survives a power cut. Without `replace`, only where nothing is: false
    /// says that something was.
    pub(crate) fn put_partial(&self, name: &OsStr, file: &File, replace: bool) -> Result<bool, FileError> {
        let failed = |error: io::Error| FileError::io(&self.path(), error);
        if let Some(about) = self.about() {
            // Only root can give a file away; anybody else's new file is their own, as with any editor.
            let (owner, group) = (Uid::from_raw(about.st_uid), Gid::from_raw(about.st_gid));
            let _ = rustix::fs::fchown(file, Some(owner), Some(group));
        }
        file.sync_all().map_err(failed)?;
        let put = match replace {
            true => rustix::fs::renameat(self.folder(), name, self.folder(), self.name()),
            false => rename_to_nothing(self.folder(), name, self.name()),
        };
        match put {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(failed(error.into())),
        }
        // A folder that may only be passed through cannot be told to; the name is then as safe as the system makes it.
        let _ = rustix::fs::fsync(self.folder().as_fd());
        Ok(true)
    }

    pub(crate) fn remove_partial(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(self.folder(), name, AtFlags::empty());
    }

    /// Bytes that are free where the place is.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let about = rustix::fs::fstatvfs(self.folder()).ok()?;
        about.f_bavail.checked_mul(about.f_frsize)
    }
}

#[cfg(target_os = "linux")]
fn rename_to_nothing(folder: &Folder, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know how; a link is never put over anything either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_nothing(folder: &Folder, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
    rustix::fs::unlinkat(folder, from, AtFlags::empty())
}
