//! Something that was opened, and where it really is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use super::FileError;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Special,
}

impl Kind {
    pub(crate) fn of(about: &Stat) -> Self {
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// Opened without doing anything to it: no device is touched, and no pipe waited for.
#[derive(Debug)]
pub(crate) struct Handle {
    fd: OwnedFd,
    path: PathBuf,
    about: Stat,
}

impl Handle {
    /// Follows links, but none of those that the kernel makes up, such as `/proc/self/root`.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let fd = open_path(path).map_err(|error| match error {
            rustix::io::Errno::LOOP => FileError::NotThis {
                path: path.to_owned(),
                what: "behind links that lead in a circle, or into another process",
            },
            rustix::io::Errno::NOTDIR => FileError::NotFound(path.to_owned()),
            error => FileError::io(path, error),
        })?;
        let about = rustix::fs::fstat(&fd).map_err(|error| FileError::io(path, error))?;
        if about.st_nlink == 0 {
            return Err(FileError::NotFound(path.to_owned()));
        }
        let real = real_path(&fd).map_err(|error| FileError::io(path, error))?;
        Ok(Self { fd, path: real, about })
    }

    /// Where it really is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn about(&self) -> &Stat {
        &self.about
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of(&self.about)
    }

    /// Of a plain file: open for reading.
    pub(crate) fn read(&self) -> Result<File, FileError> {
        self.expect(Kind::File)?;
        let file = reopen(&self.fd, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY);
        file.map(File::from).map_err(|error| FileError::io(&self.path, error))
    }

    pub(crate) fn folder(self) -> Result<Folder, FileError> {
        self.expect(Kind::Folder)?;
        let opened = reopen(&self.fd, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
        // A folder may let one through and not show what is in it.
        let fd = match opened {
            Ok(fd) => fd,
            Err(rustix::io::Errno::ACCESS) => self.fd,
            Err(error) => return Err(FileError::io(&self.path, error)),
        };
        Ok(Folder { fd, path: self.path })
    }

    fn expect(&self, kind: Kind) -> Result<(), FileError> {
        let what = match (self.kind(), kind) {
            (is, wanted) if is == wanted => return Ok(()),
            (Kind::File, _) => "a file and no folder",
            (Kind::Folder, _) => "a folder and no file",
            (Kind::Link, _) => "a link",
            (Kind::Special, _) => "a device, a pipe or a socket, which tools for files do not open",
        };
        Err(FileError::NotThis { path: self.path.clone(), what })
    }

    /// What the kernel makes up is no file of the machine: through it, processes can be read and devices set.
    pub(super) fn check_file_system(&self) -> Result<(), FileError> {
        match is_made_up(&self.fd) {
            Ok(false) => Ok(()),
            Ok(true) => Err(FileError::NotThis {
                path: self.path.clone(),
                what: "not a stored file, but a view of the kernel, which tools for files do not open",
            }),
            Err(error) => Err(FileError::io(&self.path, error)),
        }
    }
}

/// A folder that is open: what is in it is reached through it, wherever it may be moved.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it under this name, a link itself and not what it leads to.
    pub(crate) fn about(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => Ok(Some(about)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is in it, in no order; a link is a link.
    pub(crate) fn entries(&self) -> Result<Vec<(OsString, Kind)>, FileError> {
        let failed = |error: rustix::io::Errno| match error {
            // It may be passed through and not looked at.
            rustix::io::Errno::BADF => FileError::io(&self.path, rustix::io::Errno::ACCESS),
            error => FileError::io(&self.path, error),
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                _ if name == "." || name == ".." => continue,
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                FileType::Unknown => match self.about(name) {
                    Ok(Some(about)) => Kind::of(&about),
                    _ => continue,
                },
                _ => Kind::Special,
            };
            found.push((name.to_owned(), kind));
        }
        Ok(found)
    }

    /// A folder below it, through no link, and none that the kernel makes up.
    pub(crate) fn folder_below(&self, relative: &Path) -> Result<Self, FileError> {
        let path = self.path.join(relative);
        let fd = open_folder_below(&self.fd, relative).map_err(|error| FileError::io(&path, error))?;
        Ok(Self { fd, path })
    }

    /// A plain file that is right in it, and no link.
    pub(super) fn read_here(&self, name: &OsStr) -> Result<(File, Stat), FileError> {
        let failed = |error: rustix::io::Errno| FileError::io(&self.path.join(name), error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        let about = rustix::fs::fstat(&fd).map_err(failed)?;
        if Kind::of(&about) != Kind::File {
            return Err(FileError::NotThis { path: self.path.join(name), what: "no plain file" });
        }
        Ok((File::from(fd), about))
    }

    /// The folder of this name in it, made if there is none; whether it was made.
    pub(super) fn make_folder(&self, name: &OsStr, mode: u32) -> Result<(Self, bool), FileError> {
        let made = match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(error) => return Err(FileError::io(&self.path.join(name), error)),
        };
        let folder = self.folder_below(Path::new(name)).map_err(|error| match error {
            FileError::Io { path, source } if is_no_folder(&source) => {
                FileError::NotThis { path, what: "a file or a link that leads nowhere, and no folder" }
            }
            error => error,
        })?;
        Ok((folder, made))
    }

    /// A plain file below it, through no link.
    pub(super) fn read_below(&self, relative: &Path) -> Result<(File, Stat), FileError> {
        let failed = |error: rustix::io::Errno| FileError::io(&self.path.join(relative), error);
        // Without waiting: it may be a pipe by now.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = open_below(&self.fd, relative, flags).map_err(failed)?;
        let about = rustix::fs::fstat(&fd).map_err(failed)?;
        if Kind::of(&about) != Kind::File {
            return Err(FileError::NotThis { path: self.path.join(relative), what: "no plain file" });
        }
        Ok((File::from(fd), about))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_no_folder(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP))
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{FsWord, ResolveFlags, openat2};
    use rustix::io::Result;

    use super::{AsFd, CWD, Mode, OFlags, OwnedFd, Path, PathBuf};

    /// procfs, sysfs, devpts, cgroup and cgroup2, debugfs, tracefs, securityfs, bpf, configfs, efivarfs, pstore, nsfs,
    /// binfmt_misc, fusectl, selinuxfs, smackfs, mqueue: by the numbers that the kernel has for them.
    const MADE_UP: [FsWord; 18] = [
        0x9fa0,
        0x6265_6572,
        0x1cd1,
        0x27_e0eb,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0xcafe_4a11,
        0x6265_6570,
        0xde5e_81e4,
        0x6165_676c,
        0x6e73_6673,
        0x4249_4e4d,
        0x6573_5543,
        0xf97c_ff8c,
        0x4341_5d53,
        0x1980_0202,
    ];

    pub(super) fn open_path(path: &Path) -> Result<OwnedFd> {
        openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
    }

    pub(super) fn open_below(folder: &OwnedFd, relative: &Path, flags: OFlags) -> Result<OwnedFd> {
        let through_nothing = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(folder, relative, flags, Mode::empty(), through_nothing)
    }

    pub(super) fn open_folder_below(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let through_nothing = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let here = openat2(folder, relative, flags, Mode::empty(), through_nothing | ResolveFlags::NO_XDEV);
        // On the same file system as the folder it is as real as that; on another one it has to be looked at.
        if !matches!(here, Err(rustix::io::Errno::XDEV)) {
            return here;
        }
        let fd = openat2(folder, relative, flags, Mode::empty(), through_nothing)?;
        if is_made_up(&fd)? { Err(rustix::io::Errno::ACCESS) } else { Ok(fd) }
    }

    /// What was opened, again: by its number, so that it is the same whatever is at its path by now.
    pub(super) fn reopen(fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
        use std::os::fd::AsRawFd as _;
        rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
    }

    pub(super) fn real_path(fd: &OwnedFd) -> Result<PathBuf> {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::ffi::OsStringExt as _;
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let path = rustix::fs::readlink(link, Vec::new())?.into_bytes();
        Ok(PathBuf::from(std::ffi::OsString::from_vec(path)))
    }

    pub(super) fn is_made_up(fd: impl AsFd) -> Result<bool> {
        Ok(MADE_UP.contains(&rustix::fs::fstatfs(fd)?.f_type))
    }
}

/// Never compiled so far. There are no links made by the kernel to be careful of, and no call that goes through no link at
/// all; a walk follows none of them, but one that is put there in that very moment is followed.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::os::unix::ffi::OsStringExt as _;

    use rustix::io::Result;

    use super::{AsFd, CWD, Mode, OFlags, OwnedFd, Path, PathBuf};

    pub(super) fn open_path(path: &Path) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    }

    pub(super) fn open_below(folder: &OwnedFd, relative: &Path, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat(folder, relative, flags | OFlags::NOFOLLOW, Mode::empty())
    }

    pub(super) fn open_folder_below(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(folder, relative, flags, Mode::empty())
    }

    pub(super) fn reopen(fd: &OwnedFd, _: OFlags) -> Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(fd, 0)
    }

    pub(super) fn real_path(fd: &OwnedFd) -> Result<PathBuf> {
        let path = rustix::fs::getpath(fd)?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
    }

    pub(super) fn is_made_up(_: impl AsFd) -> Result<bool> {
        Ok(false)
    }
}

use system::{is_made_up, open_below, open_folder_below, open_path, real_path, reopen};
