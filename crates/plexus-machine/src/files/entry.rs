//! A name in an open folder, as the target of a write, move or removal.
//!
//! A write goes to a temporary file in the same folder, which is synced and then renamed over the target. A reader
//! sees either the old or the new content, also after a crash.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};

use super::{FileError, FileKind, Folder};

/// The mode of new files, before the umask is applied.
const NEW_FILE_MODE: u32 = 0o666;

#[derive(Debug)]
pub(crate) struct FileLocation {
    folder: Folder,
    name: OsString,
    stat: Option<Stat>,
}

impl FileLocation {
    pub(super) fn new(folder: Folder, name: OsString) -> Result<Self, FileError> {
        let stat = folder.stat(&name).map_err(|error| FileError::io(&folder.path().join(&name), error))?;
        Ok(Self { folder, name, stat })
    }

    /// The real path.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The metadata of the existing entry, if any.
    pub(crate) fn stat(&self) -> Option<&Stat> {
        self.stat.as_ref()
    }

    pub(crate) fn kind(&self) -> Option<FileKind> {
        self.stat.as_ref().map(FileKind::of)
    }

    /// Starts a file that atomically replaces the entry when complete, with the entry's mode and owner.
    pub(crate) fn new_draft(&self) -> Result<Draft<'_>, FileError> {
        self.new_draft_with(None)
    }

    /// Like [`Self::draft`], with the given mode, if any.
    pub(crate) fn new_draft_with(&self, mode: Option<u32>) -> Result<Draft<'_>, FileError> {
        match self.kind() {
            None | Some(FileKind::File) => {}
            Some(kind) => {
                let what = match kind {
                    FileKind::Folder => "a folder, not a file",
                    FileKind::Link => "a broken symlink",
                    FileKind::File | FileKind::Special => {
                        "a device, a pipe or a socket, which file tools do not open"
                    }
                };
                return Err(FileError::NotThis { path: self.path(), what });
            }
        }
        let failed = |error: rustix::io::Errno| FileError::io(&self.path(), error);
        let mode = match (mode, &self.stat) {
            (Some(mode), _) => Some(Mode::from_raw_mode(mode & 0o7777)),
            (None, stat) => stat.as_ref().map(|stat| Mode::from_raw_mode(stat.st_mode & 0o7777)),
        };
        let created = mode.unwrap_or(Mode::from_raw_mode(NEW_FILE_MODE));
        let (file, name) = match create_unnamed(&self.folder, created) {
            Some(file) => (file, None),
            None => {
                let name = temporary();
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&self.folder, &name, flags, created).map_err(failed)?;
                (File::from(fd), Some(name))
            }
        };
        let draft = Draft { location: self, name, file };
        if let Some(stat) = &self.stat {
            // Only root can change the owner. For other users the new file belongs to the node's user, as with any
            // editor.
            let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = rustix::fs::fchown(&draft.file, Some(owner), Some(group));
        }
        if let Some(mode) = mode {
            rustix::fs::fchmod(&draft.file, mode).map_err(failed)?;
        }
        Ok(draft)
    }

    /// Replaces the content.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), FileError> {
        let mut draft = self.new_draft()?;
        draft.file.write_all(content).map_err(|error| FileError::io(&self.path(), error))?;
        draft.commit()
    }

    /// Checks that the entry is unchanged since this value was created.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileError> {
        let now = self.folder.stat(&self.name).map_err(|error| FileError::io(&self.path(), error))?;
        let same = match (&self.stat, &now) {
            (None, None) => true,
            (Some(before), Some(now)) => identity(before) == identity(now),
            _ => false,
        };
        if same { Ok(()) } else { Err(FileError::Changed(self.path())) }
    }

    /// Renames the entry atomically.
    pub(crate) fn move_to(&self, other: &Self, replace: bool) -> Result<(), FileError> {
        rename(&self.folder, &self.name, &other.folder, &other.name, replace)
            .map_err(|error| FileError::io(&other.path(), error))?;
        let _ = rustix::fs::fsync(other.folder.as_fd());
        let _ = rustix::fs::fsync(self.folder.as_fd());
        Ok(())
    }

    /// Looks at the same name in the same folder again.
    pub(crate) fn reload(&self) -> Result<Self, FileError> {
        Self::new(self.folder.folder_below(Path::new(""))?, self.name.clone())
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self) -> Result<(), FileError> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)
            .map_err(|error| FileError::io(&self.path(), error))
    }

    /// Removes a file or symlink permanently.
    pub(crate) fn unlink(&self) -> Result<(), FileError> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())
            .map_err(|error| FileError::io(&self.path(), error))
    }
}

/// A file that is not at its final path yet. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Draft<'p> {
    location: &'p FileLocation,
    /// `None` while the file is unnamed (`O_TMPFILE`), if the file system supports that: a crash then leaves nothing
    /// behind.
    name: Option<OsString>,
    pub(crate) file: File,
}

impl Draft<'_> {
    /// Moves the file to its final path, where it survives a power failure.
    pub(crate) fn commit(self) -> Result<(), FileError> {
        self.commit_as(true)
    }

    /// Moves the file to its final path unless something exists there.
    pub(crate) fn commit_new(self) -> Result<(), FileError> {
        self.commit_as(false)
    }

    fn commit_as(mut self, replace: bool) -> Result<(), FileError> {
        let FileLocation { folder, name, .. } = self.location;
        let path = self.location.path();
        let failed = |error: rustix::io::Errno| FileError::io(&path, error);
        self.file.sync_all().map_err(|error| FileError::io(&path, error))?;
        let draft_name = match &self.name {
            Some(draft_name) => draft_name.clone(),
            None => {
                let draft_name = temporary();
                link_unnamed(&self.file, folder, &draft_name).map_err(failed)?;
                self.name = Some(draft_name.clone());
                draft_name
            }
        };
        rename(folder, &draft_name, folder, name, replace).map_err(failed)?;
        self.name = None;
        // A folder that may be traversed but not read cannot be synced. The durability of the name then depends on
        // the system.
        let _ = rustix::fs::fsync(folder.as_fd());
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.location.folder, name, AtFlags::empty());
        }
    }
}

/// A unique name that people can recognise as a temporary file of Plexus.
pub(crate) fn temporary() -> OsString {
    OsString::from(format!(".plexus-{:016x}.tmp", rand::random::<u64>()))
}

/// Detects a changed file, as far as the system records it.
// The integer types differ between systems.
#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn identity(stat: &Stat) -> [i128; 7] {
    [
        stat.st_dev as i128,
        stat.st_ino as i128,
        stat.st_size as i128,
        stat.st_mtime as i128,
        stat.st_mtime_nsec as i128,
        stat.st_ctime as i128,
        stat.st_ctime_nsec as i128,
    ]
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd as _};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
    use rustix::io::{Errno, Result};

    use super::{Folder, OsStr};

    /// An unnamed file. Not every file system supports it.
    pub(super) fn create_unnamed(folder: &Folder, mode: Mode) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(folder, ".", flags, mode).ok().map(File::from)
    }

    pub(super) fn link_unnamed(file: &File, folder: &Folder, name: &OsStr) -> Result<()> {
        let fd_path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        rustix::fs::linkat(CWD, fd_path, folder, name, AtFlags::SYMLINK_FOLLOW)
    }

    pub(super) fn rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr, replace: bool) -> Result<()> {
        if replace {
            return rustix::fs::renameat(from, name, to, new);
        }
        match rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
            // The file system does not support an atomic rename without replacement.
            Err(Errno::INVAL | Errno::NOSYS) => super::check_and_rename(from, name, to, new),
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

    pub(super) fn create_unnamed(_: &Folder, _: Mode) -> Option<File> {
        None
    }

    pub(super) fn link_unnamed(_: &File, _: &Folder, _: &OsStr) -> Result<()> {
        Err(Errno::NOTSUP)
    }

    pub(super) fn rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr, replace: bool) -> Result<()> {
        if replace {
            rustix::fs::renameat(from, name, to, new)
        } else {
            super::check_and_rename(from, name, to, new)
        }
    }
}

use system::{create_unnamed, link_unnamed, rename};

fn check_and_rename(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr) -> rustix::io::Result<()> {
    match to.stat(new) {
        Ok(None) => rustix::fs::renameat(from, name, to, new),
        _ => Err(rustix::io::Errno::EXIST),
    }
}
