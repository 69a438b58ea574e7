//! A name in a folder that is open: where something is written, moved or removed.
//!
//! A file is written as a whole beside its place, and put there when it is complete and on the disk. Who reads it sees the
//! old content or the new, also after a crash.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};

use super::{FileError, Folder, Kind};

/// Of files that are new, before the user's own mask.
const NEW: u32 = 0o666;

#[derive(Debug)]
pub(crate) struct Place {
    folder: Folder,
    name: OsString,
    about: Option<Stat>,
}

impl Place {
    pub(super) fn new(folder: Folder, name: OsString) -> Result<Self, FileError> {
        let about = folder.about(&name).map_err(|error| FileError::io(&folder.path().join(&name), error))?;
        Ok(Self { folder, name, about })
    }

    /// Where it really is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// What is there, if anything.
    pub(crate) fn about(&self) -> Option<&Stat> {
        self.about.as_ref()
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.about.as_ref().map(Kind::of)
    }

    /// Begins a file that takes the place when it is complete, with the mode and the owner of what is there.
    pub(crate) fn draft(&self) -> Result<Draft<'_>, FileError> {
        match self.kind() {
            None | Some(Kind::File) => {}
            Some(kind) => {
                let what = match kind {
                    Kind::Folder => "a folder and no file",
                    Kind::Link => "a link that leads nowhere",
                    Kind::File | Kind::Special => {
                        "a device, a pipe or a socket, which tools for files do not open"
                    }
                };
                return Err(FileError::NotThis { path: self.path(), what });
            }
        }
        let failed = |error: rustix::io::Errno| FileError::io(&self.path(), error);
        let mode = self
            .about
            .as_ref()
            .map_or(Mode::from_raw_mode(NEW), |about| Mode::from_raw_mode(about.st_mode & 0o7777));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = OsString::from(format!(".plexus-{:016x}.tmp", rand::random::<u64>()));
        let fd = rustix::fs::openat(&self.folder, &name, flags, mode).map_err(failed)?;
        let draft = Draft { place: self, name, file: File::from(fd), kept: false };
        if let Some(about) = &self.about {
            // Only root can give a file away; anybody else's new file is their own, as with any editor.
            let (owner, group) = (Uid::from_raw(about.st_uid), Gid::from_raw(about.st_gid));
            let _ = rustix::fs::fchown(&draft.file, Some(owner), Some(group));
            rustix::fs::fchmod(&draft.file, mode).map_err(failed)?;
        }
        Ok(draft)
    }

    /// Writes all of it.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), FileError> {
        let mut draft = self.draft()?;
        draft.file.write_all(content).map_err(|error| FileError::io(&self.path(), error))?;
        draft.put()
    }

    /// Removes a file or link for good.
    pub(crate) fn unlink(&self) -> Result<(), FileError> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())
            .map_err(|error| FileError::io(&self.path(), error))
    }
}

/// A file that is not in its place yet. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Draft<'p> {
    place: &'p Place,
    name: OsString,
    pub(crate) file: File,
    kept: bool,
}

impl Draft<'_> {
    /// Puts it in its place, where it survives a power cut.
    pub(crate) fn put(mut self) -> Result<(), FileError> {
        let Place { folder, name, .. } = self.place;
        let path = self.place.path();
        self.file.sync_all().map_err(|error| FileError::io(&path, error))?;
        rustix::fs::renameat(folder, &self.name, folder, name)
            .map_err(|error| FileError::io(&path, error))?;
        self.kept = true;
        // A folder that may only be passed through cannot be told to; the name is then as safe as the system makes it.
        let _ = rustix::fs::fsync(folder.as_fd());
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = rustix::fs::unlinkat(&self.place.folder, &self.name, AtFlags::empty());
        }
    }
}
