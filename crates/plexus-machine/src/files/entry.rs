//! A name in a folder that is open: where something is written, moved or removed.
//!
//! A file is written as a whole beside its place, and put there when it is complete and on the disk. Who reads it sees the
//! old content or the new, also after a crash.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

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
        self.draft_with(None)
    }

    /// The same with this mode, if one is given.
    pub(crate) fn draft_with(&self, mode: Option<u32>) -> Result<Draft<'_>, FileError> {
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
        let mode = match (mode, &self.about) {
            (Some(mode), _) => Some(Mode::from_raw_mode(mode & 0o7777)),
            (None, about) => about.as_ref().map(|about| Mode::from_raw_mode(about.st_mode & 0o7777)),
        };
        let created = mode.unwrap_or(Mode::from_raw_mode(NEW));
        let (file, name) = match nameless(&self.folder, created) {
            Some(file) => (file, None),
            None => {
                let name = temporary();
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&self.folder, &name, flags, created).map_err(failed)?;
                (File::from(fd), Some(name))
            }
        };
        let draft = Draft { place: self, name, file };
        if let Some(about) = &self.about {
            // Only root can give a file away; anybody else's new file is their own, as with any editor.
            let (owner, group) = (Uid::from_raw(about.st_uid), Gid::from_raw(about.st_gid));
            let _ = rustix::fs::fchown(&draft.file, Some(owner), Some(group));
        }
        if let Some(mode) = mode {
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

    /// Whether there is still what was there when the place was looked at.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileError> {
        let now = self.folder.about(&self.name).map_err(|error| FileError::io(&self.path(), error))?;
        let same = match (&self.about, &now) {
            (None, None) => true,
            (Some(before), Some(now)) => identity(before) == identity(now),
            _ => false,
        };
        if same { Ok(()) } else { Err(FileError::Changed(self.path())) }
    }

    /// What is there gets another place, at once.
    pub(crate) fn move_to(&self, other: &Self, replace: bool) -> Result<(), FileError> {
        rename(&self.folder, &self.name, &other.folder, &other.name, replace)
            .map_err(|error| FileError::io(&other.path(), error))?;
        let _ = rustix::fs::fsync(other.folder.as_fd());
        let _ = rustix::fs::fsync(self.folder.as_fd());
        Ok(())
    }

    /// The same name in the same folder, as it is now.
    pub(crate) fn again(&self) -> Result<Self, FileError> {
        Self::new(self.folder.folder_below(Path::new(""))?, self.name.clone())
    }

    /// Removes a folder with nothing in it.
    pub(crate) fn remove_folder(&self) -> Result<(), FileError> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)
            .map_err(|error| FileError::io(&self.path(), error))
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
    /// None while it has no name at all, which is so where the file system can do it: a crash leaves nothing then.
    name: Option<OsString>,
    pub(crate) file: File,
}

impl Draft<'_> {
    /// Puts it in its place, where it survives a power cut.
    pub(crate) fn put(self) -> Result<(), FileError> {
        self.put_as(true)
    }

    /// Puts it in its place if nothing is there.
    pub(crate) fn put_new(self) -> Result<(), FileError> {
        self.put_as(false)
    }

    fn put_as(mut self, replace: bool) -> Result<(), FileError> {
        let Place { folder, name, .. } = self.place;
        let path = self.place.path();
        let failed = |error: rustix::io::Errno| FileError::io(&path, error);
        self.file.sync_all().map_err(|error| FileError::io(&path, error))?;
        let own = match &self.name {
            Some(own) => own.clone(),
            None => {
                let own = temporary();
                give_name(&self.file, folder, &own).map_err(failed)?;
                self.name = Some(own.clone());
                own
            }
        };
        rename(folder, &own, folder, name, replace).map_err(failed)?;
        self.name = None;
        // A folder that may only be passed through cannot be told to; the name is then as safe as the system makes it.
        let _ = rustix::fs::fsync(folder.as_fd());
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.place.folder, name, AtFlags::empty());
        }
    }
}

/// A name that nobody else has, and by which people know what it was.
pub(crate) fn temporary() -> OsString {
    OsString::from(format!(".plexus-{:016x}.tmp", rand::random::<u64>()))
}

/// What tells a file from what it was before, as far as the system keeps it.
// The width of these differs between systems.
#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn identity(about: &Stat) -> [i128; 7] {
    [
        about.st_dev as i128,
        about.st_ino as i128,
        about.st_size as i128,
        about.st_mtime as i128,
        about.st_mtime_nsec as i128,
        about.st_ctime as i128,
        about.st_ctime_nsec as i128,
    ]
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd as _};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
    use rustix::io::{Errno, Result};

    use super::{Folder, OsStr};

    /// A file that no folder shows; not every file system has them.
    pub(super) fn nameless(folder: &Folder, mode: Mode) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(folder, ".", flags, mode).ok().map(File::from)
    }

    pub(super) fn give_name(file: &File, folder: &Folder, name: &OsStr) -> Result<()> {
        let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        rustix::fs::linkat(CWD, own, folder, name, AtFlags::SYMLINK_FOLLOW)
    }

    pub(super) fn rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr, replace: bool) -> Result<()> {
        if replace {
            return rustix::fs::renameat(from, name, to, new);
        }
        match rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
            // A file system that cannot do both at once.
            Err(Errno::INVAL | Errno::NOSYS) => super::look_and_rename(from, name, to, new),
            done => done,
        }
    }
}

/// Never compiled so far.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;

    use rustix::fs::Mode;
    use rustix::io::{Errno, Result};

    use super::{Folder, OsStr};

    pub(super) fn nameless(_: &Folder, _: Mode) -> Option<File> {
        None
    }

    pub(super) fn give_name(_: &File, _: &Folder, _: &OsStr) -> Result<()> {
        Err(Errno::NOTSUP)
    }

    pub(super) fn rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr, replace: bool) -> Result<()> {
        if replace {
            rustix::fs::renameat(from, name, to, new)
        } else {
            super::look_and_rename(from, name, to, new)
        }
    }
}

use system::{give_name, nameless, rename};

fn look_and_rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr) -> rustix::io::Result<()> {
    match to.about(new) {
        Ok(None) => rustix::fs::renameat(from, name, to, new),
        _ => Err(rustix::io::Errno::EXIST),
    }
}
