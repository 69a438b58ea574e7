//! The path of a file below an allowed folder.
//!
//! The path from that folder to the file is opened component by component without following symlinks, and all reads
//! and writes use the opened folder's descriptor, so a symlink created meanwhile cannot redirect them.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use plexus_kit::hex;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::document::MAX_FILE_BYTES;
use crate::error::BridgeError;

/// An allowed folder and a path below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedPath {
    root: PathBuf,
    below: PathBuf,
    /// The mode of created files and folders: readable by everyone, as in a project, or by the owner only.
    shared: bool,
}

/// The content and metadata of a file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    pub text: String,
    pub(crate) hash: String,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
}

/// The opened folder of a file.
pub(crate) struct Folder {
    pub(crate) fd: OwnedFd,
    pub(crate) name: OsString,
}

pub(crate) fn hash(content: &[u8]) -> String {
    hex::encode(digest(&SHA256, content).as_ref())
}

impl ConfinedPath {
    /// `below` must be a plain relative path.
    pub fn new(root: &Path, below: &Path, shared: bool) -> Result<Self, BridgeError> {
        let path = root.join(below);
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || below.as_os_str().is_empty() || !root.is_absolute() {
            return Err(BridgeError::refused(
                &path,
                "is not a plain path below a folder of an agent",
                "name it without `..`",
            ));
        }
        Ok(Self { root: root.to_owned(), below: below.to_owned(), shared })
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn below(&self) -> &Path {
        &self.below
    }

    /// The missing folders, outermost first.
    pub(crate) fn missing_folders(&self) -> Vec<PathBuf> {
        let path = self.path();
        let above = path.ancestors().skip(1).take_while(|folder| folder.symlink_metadata().is_err());
        let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    pub(crate) fn new_file_mode(&self) -> u32 {
        if self.shared { 0o644 } else { 0o600 }
    }

    /// Opens the folder of the file; none if it is missing and must not be created.
    pub(crate) fn folder(&self, create: bool) -> Result<Option<Folder>, BridgeError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut path = self.root.clone();
        let opened = match rustix::fs::openat(CWD, &self.root, flags, Mode::empty()) {
            Err(Errno::NOENT) if create => {
                let mode = if self.shared { 0o755 } else { 0o700 };
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(mode)
                    .create(&self.root)
                    .map_err(BridgeError::io(&self.root, "make the folder"))?;
                rustix::fs::openat(CWD, &self.root, flags, Mode::empty())
            }
            opened => opened,
        };
        let mut fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(BridgeError::io(&self.root, "open the folder")(error.into())),
        };
        let mut parts: Vec<&std::ffi::OsStr> = self.below.iter().collect();
        let name = parts.pop().unwrap_or_default().to_owned();
        for part in parts {
            path.push(part);
            if create {
                let mode = if self.shared { 0o755 } else { 0o700 };
                match rustix::fs::mkdirat(&fd, part, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(BridgeError::io(&path, "make the folder")(error.into())),
                }
            }
            fd = match rustix::fs::openat(&fd, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(inner) => inner,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(link_error(&path, &fd, part)),
                Err(error) => return Err(BridgeError::io(&path, "open the folder")(error.into())),
            };
        }
        Ok(Some(Folder { fd, name }))
    }

    /// Reads the file; none if it is missing. A file that must not be replaced is an error.
    pub fn read(&self) -> Result<Option<FileContent>, BridgeError> {
        match self.folder(false)? {
            Some(folder) => self.read_in(&folder, &folder.name),
            None => Ok(None),
        }
    }

    /// The same for a file in the same folder.
    pub(crate) fn read_in(
        &self,
        folder: &Folder,
        name: &OsString,
    ) -> Result<Option<FileContent>, BridgeError> {
        let path = self.path();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&folder.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(link_error(&path, &folder.fd, name)),
            Err(error) => return Err(BridgeError::io(&path, "read")(error.into())),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| BridgeError::io(&path, "read")(error.into()))?;
        let refused = |why: &str, fix: &str| Err(BridgeError::refused(&path, why, fix));
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return refused("is not a regular file", "replace it with a regular file, or exclude this agent");
        }
        if stat.st_nlink > 1 {
            return refused(
                "has several hard links, which replacing the file would break",
                "make it a file of its own",
            );
        }
        let mode = stat.st_mode & 0o7777;
        if mode & 0o200 == 0 {
            return refused("is read-only", "make it writable (chmod u+w) if it is to be changed");
        }
        let mut bytes = Vec::new();
        let limit = MAX_FILE_BYTES as u64 + 1;
        std::fs::File::from(fd)
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(BridgeError::io(&path, "read"))?;
        if bytes.len() > MAX_FILE_BYTES {
            return refused(
                &format!("is larger than {} MiB", MAX_FILE_BYTES >> 20),
                "shorten it, or exclude this agent",
            );
        }
        let hash = hash(&bytes);
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(FileContent { text, hash, mode, owner: (stat.st_uid, stat.st_gid) })),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                refused(
                    &format!("is not UTF-8: byte {at} is not part of a valid character"),
                    "save it as UTF-8",
                )
            }
        }
    }

    /// Identifies the object under a name: a file by its content, anything unreadable by its inode number. So any
    /// replacement is detected.
    pub(crate) fn fingerprint(&self, folder: &Folder, name: &OsString) -> Option<String> {
        match self.read_in(folder, name) {
            Ok(found) => found.map(|found| found.hash),
            Err(_) => {
                let stat = rustix::fs::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                Some(format!("number {}", stat.st_ino))
            }
        }
    }
}

fn link_error(path: &Path, folder: impl AsFd, name: &std::ffi::OsStr) -> BridgeError {
    let kind = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Symlink) => {
            let to =
                std::fs::read_link(path).map_or_else(|_| String::new(), |to| format!(" to {}", to.display()));
            let why = format!("is a symbolic link{to}; links are not followed");
            BridgeError::refused(
                path,
                why,
                "put the file itself there, or change it by hand; --no-instructions leaves instructions alone",
            )
        }
        _ => BridgeError::io(path, "open the folder")(io::Error::from(io::ErrorKind::NotADirectory)),
    }
}
