//! An opened path and its real location.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use super::FileError;

/// The file type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Special,
}

impl FileKind {
    pub(crate) fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// A path opened with `O_PATH`, without side effects: devices are not touched and pipes do not block.
#[derive(Debug)]
pub(crate) struct Handle {
    fd: OwnedFd,
    path: PathBuf,
    stat: Stat,
}

impl Handle {
    /// Follows symlinks except magic links such as `/proc/self/root`.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let fd = open_path(path).map_err(|error| match error {
            rustix::io::Errno::LOOP => FileError::NotThis {
                path: path.to_owned(),
                what: "behind a symlink loop, or behind a link into another process",
            },
            rustix::io::Errno::NOTDIR => FileError::NotFound(path.to_owned()),
            error => FileError::io(path, error),
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| FileError::io(path, error))?;
        if stat.st_nlink == 0 {
            return Err(FileError::NotFound(path.to_owned()));
        }
        let real = real_path(&fd).map_err(|error| FileError::io(path, error))?;
        Ok(Self { fd, path: real, stat })
    }

    /// The real path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(crate) fn kind(&self) -> FileKind {
        FileKind::of(&self.stat)
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self) -> Result<File, FileError> {
        self.expect(FileKind::File)?;
        let file = reopen(&self.fd, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY);
        file.map(File::from).map_err(|error| FileError::io(&self.path, error))
    }

    pub(crate) fn folder(self) -> Result<Folder, FileError> {
        self.expect(FileKind::Folder)?;
        let opened = reopen(&self.fd, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
        // A folder may be traversable but not readable.
        let fd = match opened {
            Ok(fd) => fd,
            Err(rustix::io::Errno::ACCESS) => self.fd,
            Err(error) => return Err(FileError::io(&self.path, error)),
        };
        Ok(Folder { fd, path: self.path })
    }

    fn expect(&self, kind: FileKind) -> Result<(), FileError> {
        let what = match (self.kind(), kind) {
            (is, expected) if is == expected => return Ok(()),
            (FileKind::File, _) => "a file, not a folder",
            (FileKind::Folder, _) => "a folder, not a file",
            (FileKind::Link, _) => "a symlink",
            (FileKind::Special, _) => "a device, a pipe or a socket, which file tools do not open",
        };
        Err(FileError::NotThis { path: self.path.clone(), what })
    }

    /// Refuses virtual file systems such as procfs, which give access to processes and devices.
    pub(super) fn check_file_system(&self) -> Result<(), FileError> {
        match is_virtual(&self.fd) {
            Ok(false) => Ok(()),
            Ok(true) => Err(FileError::NotThis {
                path: self.path.clone(),
                what: "in a virtual file system of the kernel, which file tools do not open",
            }),
            Err(error) => Err(FileError::io(&self.path, error)),
        }
    }
}

/// An open folder. Its entries are accessed through its descriptor, even if it is moved.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The metadata of an entry, without following a symlink.
    pub(crate) fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The entries, unordered and without following symlinks.
    pub(crate) fn entries(&self) -> Result<Vec<(OsString, FileKind)>, FileError> {
        let failed = |error: rustix::io::Errno| match error {
            // The folder can be traversed but not read.
            rustix::io::Errno::BADF => FileError::io(&self.path, rustix::io::Errno::ACCESS),
            error => FileError::io(&self.path, error),
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                _ if name == "." || name == ".." => continue,
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Folder,
                FileType::Symlink => FileKind::Link,
                FileType::Unknown => match self.stat(name) {
                    Ok(Some(stat)) => FileKind::of(&stat),
                    _ => continue,
                },
                _ => FileKind::Special,
            };
            found.push((name.to_owned(), kind));
        }
        Ok(found)
    }

    /// Opens a folder below this one, without following symlinks or entering virtual file systems.
    pub(crate) fn folder_below(&self, relative: &Path) -> Result<Self, FileError> {
        let path = self.path.join(relative);
        let fd = open_folder_below(&self.fd, relative).map_err(|error| FileError::io(&path, error))?;
        Ok(Self { fd, path })
    }

    /// Opens a regular file directly in this folder, without following a symlink.
    pub(super) fn read_here(&self, name: &OsStr) -> Result<(File, Stat), FileError> {
        let failed = |error: rustix::io::Errno| FileError::io(&self.path.join(name), error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if FileKind::of(&stat) != FileKind::File {
            return Err(FileError::NotThis { path: self.path.join(name), what: "not a regular file" });
        }
        Ok((File::from(fd), stat))
    }

    /// Opens the named folder, creating it if it does not exist. Also returns whether it was created.
    pub(super) fn make_folder(&self, name: &OsStr, mode: u32) -> Result<(Self, bool), FileError> {
        let made = match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(error) => return Err(FileError::io(&self.path.join(name), error)),
        };
        let folder = self.folder_below(Path::new(name)).map_err(|error| match error {
            FileError::Io { path, source } if is_not_a_folder(&source) => {
                FileError::NotThis { path, what: "a file or a broken symlink, not a folder" }
            }
            error => error,
        })?;
        Ok((folder, made))
    }

    /// Opens a regular file below this folder, without following symlinks.
    pub(super) fn read_below(&self, relative: &Path) -> Result<(File, Stat), FileError> {
        let failed = |error: rustix::io::Errno| FileError::io(&self.path.join(relative), error);
        // Non-blocking, because the file may have been replaced by a pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = open_below(&self.fd, relative, flags).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if FileKind::of(&stat) != FileKind::File {
            return Err(FileError::NotThis { path: self.path.join(relative), what: "not a regular file" });
        }
        Ok((File::from(fd), stat))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_not_a_folder(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP))
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{FsWord, ResolveFlags, openat2};
    use rustix::io::Result;

    use super::{AsFd, CWD, Mode, OFlags, OwnedFd, Path, PathBuf};

    /// The magic numbers of procfs, sysfs, devpts, cgroup and cgroup2, debugfs, tracefs, securityfs, bpf, configfs,
    /// efivarfs, pstore, nsfs, binfmt_misc, fusectl, selinuxfs, smackfs and mqueue.
    const VIRTUAL: [FsWord; 18] = [
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
        let without_links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(folder, relative, flags, Mode::empty(), without_links)
    }

    pub(super) fn open_folder_below(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let without_links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(folder, relative, flags, Mode::empty(), without_links | ResolveFlags::NO_XDEV);
        // On the same file system it is as real as its parent; another file system must be checked.
        if !matches!(opened, Err(rustix::io::Errno::XDEV)) {
            return opened;
        }
        let fd = openat2(folder, relative, flags, Mode::empty(), without_links)?;
        if is_virtual(&fd)? { Err(rustix::io::Errno::ACCESS) } else { Ok(fd) }
    }

    /// Reopens a descriptor by its number, so that it is the same file whatever exists at its path now.
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

    pub(super) fn is_virtual(fd: impl AsFd) -> Result<bool> {
        Ok(VIRTUAL.contains(&rustix::fs::fstatfs(fd)?.f_type))
    }
}

/// Never compiled so far. These systems have no magic links, and no call that refuses symlinks in all path
/// components. A walk does not follow symlinks, but one created at that very moment is followed.
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

    pub(super) fn is_virtual(_: impl AsFd) -> Result<bool> {
        Ok(false)
    }
}

use system::{is_virtual, open_below, open_folder_below, open_path, real_path, reopen};
