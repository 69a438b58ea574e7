//! File access for the tools, restricted by the policy.
//!
//! A path is first opened without side effects (`O_PATH`) and checked afterwards: the kernel reports the real path of
//! the opened file, which is compared with the policy. Symlinks, `..` and races on the way are resolved by then. All
//! further operations use the opened file and never the path again.

mod denied_inodes;
mod entry;
mod error;
mod handle;
mod ignored;
mod partial;
mod walk;
mod work;

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::Machine;
use crate::policy::{self, AccessKind, Policy};

pub(crate) use entry::{FileLocation, temporary};
pub(crate) use error::FileError;
pub(crate) use handle::{FileKind, Folder, Handle};
pub(crate) use walk::{Walk, WalkEntry, WalkVisitor, walk};

use denied_inodes::DeniedInodes;

/// The mode of new folders, before the umask is applied.
const FOLDER_MODE: u32 = 0o777;

/// The files of the machine under the policy that was in force when a call began.
#[derive(Debug, Clone)]
pub(crate) struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: Arc<Policy>,
    home: PathBuf,
    /// Denied files that have several hard links; searched for on first use.
    denied_inodes: OnceLock<DeniedInodes>,
}

impl Files {
    pub(crate) fn for_machine(machine: &Machine) -> Self {
        Self::with_policy(machine.policy.now(), policy::home(&machine.environment))
    }

    /// The files that a policy allows.
    pub(crate) fn with_policy(policy: Arc<Policy>, home: PathBuf) -> Self {
        Self(Arc::new(Inner { policy, home, denied_inodes: OnceLock::new() }))
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Resolves a path from a caller: absolute, relative to the home folder (`~/`), or relative to the working
    /// folder.
    pub(crate) fn path(&self, path_text: &str) -> Result<PathBuf, FileError> {
        let path = match path_text.strip_prefix('~') {
            Some("") => self.0.home.clone(),
            Some(rest) if rest.starts_with('/') => self.0.home.join(rest.trim_start_matches('/')),
            _ => PathBuf::from(path_text),
        };
        match path.is_absolute() {
            _ if path_text.contains('\0') => Err(FileError::NoPath(path_text.to_owned())),
            true => Ok(path),
            false if is_not_relative(path_text) => Err(FileError::NoPath(path_text.to_owned())),
            false => Ok(self.work_folder()?.join(path)),
        }
    }

    /// Opens anything at a path without side effects, following symlinks, and checks that it may be read.
    pub(crate) fn open_handle(&self, path: &Path) -> Result<Handle, FileError> {
        let handle = Handle::open(path)?;
        self.check_handle(&handle, AccessKind::Read)?;
        Ok(handle)
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self, path: &Path) -> Result<(Handle, std::fs::File), FileError> {
        let handle = self.open_handle(path)?;
        let file = handle.read()?;
        Ok((handle, file))
    }

    /// Opens a folder for listing.
    pub(crate) fn folder(&self, path: &Path) -> Result<Folder, FileError> {
        self.open_handle(path)?.folder()
    }

    /// Opens a regular file that a walk found; `relative` contains no symlinks. This is cheap for many files: the
    /// kernel follows no symlinks, so the path is the real one.
    pub(crate) fn read_below(&self, folder: &Folder, relative: &Path) -> Result<std::fs::File, FileError> {
        let real = folder.path().join(relative);
        self.check(&real, AccessKind::Read)?;
        let (file, stat) = folder.read_below(relative)?;
        self.check_links(&real, &stat)?;
        Ok(file)
    }

    /// Opens a regular file that a walk has reached.
    pub(crate) fn read_walked(&self, found: &WalkEntry<'_>) -> Result<std::fs::File, FileError> {
        let (file, stat) = found.folder.read_here(found.name)?;
        if stat.st_nlink > 1 {
            self.check_links(&found.folder.path().join(found.name), &stat)?;
        }
        Ok(file)
    }

    /// Checks access to a real path.
    pub(crate) fn check(&self, real: &Path, access: AccessKind) -> Result<(), FileError> {
        let refused = |why| FileError::Refused { path: real.to_owned(), why };
        self.0.policy.files.check(real, access).map_err(refused)
    }

    /// The target of a write, which may exist already. Symlinks are followed, and write access is checked.
    pub(crate) fn write_target(&self, path: &Path) -> Result<FileLocation, FileError> {
        let real = match Handle::open(path) {
            Ok(handle) => {
                self.check_handle(&handle, AccessKind::Read)?;
                handle.path().to_owned()
            }
            Err(FileError::NotFound(_)) => path.to_owned(),
            Err(error) => return Err(error),
        };
        let (parent, name) = split(&real)?;
        let folder = Handle::open(parent)?.folder()?;
        let real = folder.path().join(name);
        self.check(&real, AccessKind::Write)?;
        FileLocation::new(folder, name.to_owned())
    }

    /// An entry by its own name, without following a symlink: the source of a move or removal.
    pub(crate) fn entry(&self, path: &Path) -> Result<FileLocation, FileError> {
        let (parent, name) = split(path)?;
        let folder = Handle::open(parent)?.folder()?;
        self.check(&folder.path().join(name), AccessKind::Write)?;
        FileLocation::new(folder, name.to_owned())
    }

    /// Like [`Self::entry`], for an entry that is moved or removed as a whole: it must not contain anything
    /// protected, and it must not be a folder that the policy names.
    pub(crate) fn movable_entry(&self, path: &Path) -> Result<FileLocation, FileError> {
        let location = self.entry(path)?;
        let real = location.path();
        let refused = |why| FileError::Refused { path: real.clone(), why };
        self.check(location.folder().path(), AccessKind::Write)
            .map_err(|_| refused(policy::PathRefused::Named))?;
        if location.kind() != Some(FileKind::File) && self.0.policy.files.has_exceptions_below(&real) {
            return Err(refused(policy::PathRefused::HasExceptions));
        }
        if let Some(stat) = location.stat() {
            self.check_links(&real, stat)?;
        }
        Ok(location)
    }

    /// Opens a folder, creating it and its missing parents. Also returns the real paths of the created folders.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(Folder, Vec<PathBuf>), FileError> {
        self.make_folder_with(path, FOLDER_MODE)
    }

    /// Like [`Self::make_folder`], with the given mode for new folders, before the umask is applied.
    fn make_folder_with(&self, path: &Path, mode: u32) -> Result<(Folder, Vec<PathBuf>), FileError> {
        let mut missing = Vec::new();
        let mut ancestor = path;
        let mut folder = loop {
            match Handle::open(ancestor) {
                Ok(handle) => {
                    // The parents of a writable folder need not be readable.
                    if missing.is_empty() {
                        self.check(handle.path(), AccessKind::Read)?;
                    }
                    handle.check_file_system()?;
                    break handle.folder()?;
                }
                Err(FileError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            let (parent, name) = split(ancestor)?;
            missing.push(name);
            ancestor = parent;
        };
        // All names are checked first, so that a refused call leaves nothing behind.
        let mut real = folder.path().to_owned();
        for name in missing.iter().rev() {
            real.push(name);
            self.check(&real, AccessKind::Write)?;
        }
        let mut all_made = Vec::new();
        for name in missing.iter().rev() {
            let (inner, made) = folder.make_folder(name, mode)?;
            if made {
                all_made.push(inner.path().to_owned());
            }
            folder = inner;
        }
        Ok((folder, all_made))
    }

    fn check_handle(&self, handle: &Handle, access: AccessKind) -> Result<(), FileError> {
        self.check(handle.path(), access)?;
        handle.check_file_system()?;
        self.check_links(handle.path(), handle.stat())
    }

    /// A hard link to a denied file gives access to the same content.
    fn check_links(&self, real: &Path, stat: &rustix::fs::Stat) -> Result<(), FileError> {
        if stat.st_nlink < 2 || FileKind::of(stat) != FileKind::File {
            return Ok(());
        }
        let denied_inodes =
            self.0.denied_inodes.get_or_init(|| DeniedInodes::find(&self.0.policy.files.deny));
        match denied_inodes.has(stat) {
            true => Err(FileError::Refused { path: real.to_owned(), why: policy::PathRefused::Denied }),
            false => Ok(()),
        }
    }
}

/// Whether this cannot be meant as a relative path: an empty path, another user's home folder, a URL, a Windows path,
/// or a path with leading whitespace. Treated as relative, it would name an unintended file.
fn is_not_relative(path_text: &str) -> bool {
    let has_drive =
        matches!(path_text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    path_text.is_empty()
        || path_text.starts_with('~')
        || path_text.starts_with(char::is_whitespace)
        || path_text.contains("://")
        || has_drive
}

/// Splits a path into parent folder and name.
fn split(path: &Path) -> Result<(&Path, &std::ffi::OsStr), FileError> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok((parent, name)),
        _ => Err(FileError::NoPath(path.display().to_string())),
    }
}

#[cfg(test)]
mod tests;
