//! Files of the machine, for the tools that work on them.
//!
//! A path is opened first, without doing anything to what is there, and judged afterwards: the kernel says where that
//! which was opened really is, and this is compared with the policy. Whatever links, `..` and races there were on the way
//! has happened by then. All that follows goes through what was opened and never through the path again.

mod entry;
mod error;
mod handle;
mod ignored;
mod linked;
mod partial;
mod walk;
mod work;

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::Machine;
use crate::policy::{self, Policy, Want};

pub(crate) use entry::{Place, temporary};
pub(crate) use error::FileError;
pub(crate) use handle::{Folder, Handle, Kind};
pub(crate) use walk::{Found, Visit, Walk, walk};

use linked::Linked;

/// Of folders that are new, before the user's own mask.
const FOLDER_MODE: u32 = 0o777;

/// The files of the machine as one call sees them: under the policy that held when it began.
#[derive(Debug, Clone)]
pub(crate) struct Files(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: Arc<Policy>,
    home: PathBuf,
    /// Denied files that have other names too; looked for when first needed.
    linked: OnceLock<Linked>,
}

impl Files {
    pub(crate) fn of(machine: &Machine) -> Self {
        Self::under(machine.policy.now(), policy::home(&machine.environment))
    }

    /// Those that a policy lets be seen.
    pub(crate) fn under(policy: Arc<Policy>, home: PathBuf) -> Self {
        Self(Arc::new(Inner { policy, home, linked: OnceLock::new() }))
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// What a caller calls a path: a full one, one from the home folder on, or one from the working folder on.
    pub(crate) fn path(&self, given: &str) -> Result<PathBuf, FileError> {
        let path = match given.strip_prefix('~') {
            Some("") => self.0.home.clone(),
            Some(rest) if rest.starts_with('/') => self.0.home.join(rest.trim_start_matches('/')),
            _ => PathBuf::from(given),
        };
        match path.is_absolute() {
            _ if given.contains('\0') => Err(FileError::NoPath(given.to_owned())),
            true => Ok(path),
            false if is_foreign(given) => Err(FileError::NoPath(given.to_owned())),
            false => Ok(self.work_folder()?.join(path)),
        }
    }

    /// What is there, whatever it is: links are followed, and nothing is done to it. It may be read.
    pub(crate) fn look(&self, path: &Path) -> Result<Handle, FileError> {
        let handle = Handle::open(path)?;
        self.judge(&handle, Want::Read)?;
        Ok(handle)
    }

    /// A plain file, open for reading.
    pub(crate) fn read(&self, path: &Path) -> Result<(Handle, std::fs::File), FileError> {
        let handle = self.look(path)?;
        let file = handle.read()?;
        Ok((handle, file))
    }

    /// A folder whose content may be looked at.
    pub(crate) fn folder(&self, path: &Path) -> Result<Folder, FileError> {
        self.look(path)?.folder()
    }

    /// A plain file that a walk has found in a folder, `relative` without links in it. For many files at little cost: the
    /// kernel goes through no link, so that the path is the real one.
    pub(crate) fn read_below(&self, folder: &Folder, relative: &Path) -> Result<std::fs::File, FileError> {
        let real = folder.path().join(relative);
        self.check(&real, Want::Read)?;
        let (file, about) = folder.read_below(relative)?;
        self.check_links(&real, &about)?;
        Ok(file)
    }

    /// A plain file that a walk has come to.
    pub(crate) fn read_found(&self, found: &Found<'_>) -> Result<std::fs::File, FileError> {
        let (file, about) = found.folder.read_here(found.name)?;
        if about.st_nlink > 1 {
            self.check_links(&found.folder.path().join(found.name), &about)?;
        }
        Ok(file)
    }

    /// Whether a real path may be read or written.
    pub(crate) fn check(&self, real: &Path, want: Want) -> Result<(), FileError> {
        let refused = |why| FileError::Refused { path: real.to_owned(), why };
        self.0.policy.files.check(real, want).map_err(refused)
    }

    /// Where a file is to be, that may be there already: links are followed as far as they lead, and it may be written.
    pub(crate) fn place(&self, path: &Path) -> Result<Place, FileError> {
        let real = match Handle::open(path) {
            Ok(handle) => {
                self.judge(&handle, Want::Read)?;
                handle.path().to_owned()
            }
            Err(FileError::NotFound(_)) => path.to_owned(),
            Err(error) => return Err(error),
        };
        let (parent, name) = split(&real)?;
        let folder = Handle::open(parent)?.folder()?;
        let real = folder.path().join(name);
        self.check(&real, Want::Write)?;
        Place::new(folder, name.to_owned())
    }

    /// What is there under its own name, a link itself and not what it leads to: to be moved or removed.
    pub(crate) fn entry(&self, path: &Path) -> Result<Place, FileError> {
        let (parent, name) = split(path)?;
        let folder = Handle::open(parent)?.folder()?;
        self.check(&folder.path().join(name), Want::Write)?;
        Place::new(folder, name.to_owned())
    }

    /// The same for what is to be taken away as a whole: nothing in it is out of reach, and it is no folder that the policy
    /// names, which are the owner's to take away.
    pub(crate) fn whole(&self, path: &Path) -> Result<Place, FileError> {
        let place = self.entry(path)?;
        let real = place.path();
        let refused = |why| FileError::Refused { path: real.clone(), why };
        self.check(place.folder().path(), Want::Write).map_err(|_| refused(policy::PathRefused::Named))?;
        if place.kind() != Some(Kind::File) && self.0.policy.files.has_exceptions_below(&real) {
            return Err(refused(policy::PathRefused::HasExceptions));
        }
        if let Some(about) = place.about() {
            self.check_links(&real, about)?;
        }
        Ok(place)
    }

    /// The folder that a path is to be in, made with those above it if it is not there; the real paths of what was made.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(Folder, Vec<PathBuf>), FileError> {
        self.make_folder_with(path, FOLDER_MODE)
    }

    /// The same with this mode for what is made, before the user's own mask.
    fn make_folder_with(&self, path: &Path, mode: u32) -> Result<(Folder, Vec<PathBuf>), FileError> {
        let mut missing = Vec::new();
        let mut there = path;
        let mut folder = loop {
            match Handle::open(there) {
                Ok(handle) => {
                    // A folder above one that may be written need not be readable.
                    if missing.is_empty() {
                        self.check(handle.path(), Want::Read)?;
                    }
                    handle.check_file_system()?;
                    break handle.folder()?;
                }
                Err(FileError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            let (parent, name) = split(there)?;
            missing.push(name);
            there = parent;
        };
        // All of them first: what is refused leaves nothing behind.
        let mut real = folder.path().to_owned();
        for name in missing.iter().rev() {
            real.push(name);
            self.check(&real, Want::Write)?;
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

    fn judge(&self, handle: &Handle, want: Want) -> Result<(), FileError> {
        self.check(handle.path(), want)?;
        handle.check_file_system()?;
        self.check_links(handle.path(), handle.about())
    }

    /// A second name of a denied file leads to the same content.
    fn check_links(&self, real: &Path, about: &rustix::fs::Stat) -> Result<(), FileError> {
        if about.st_nlink < 2 || Kind::of(about) != Kind::File {
            return Ok(());
        }
        let linked = self.0.linked.get_or_init(|| Linked::find(&self.0.policy.files.deny));
        match linked.has(about) {
            true => Err(FileError::Refused { path: real.to_owned(), why: policy::PathRefused::Denied }),
            false => Ok(()),
        }
    }
}

/// Whether this is not meant as a relative path: nothing, the home folder of another user, a URL, a path of another system,
/// or one with a blank before it. As a relative path, it would stand for a file that nobody meant.
fn is_foreign(given: &str) -> bool {
    let has_drive =
        matches!(given.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    given.is_empty()
        || given.starts_with('~')
        || given.starts_with(char::is_whitespace)
        || given.contains("://")
        || has_drive
}

/// A name and the folder that it is in.
fn split(path: &Path) -> Result<(&Path, &std::ffi::OsStr), FileError> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok((parent, name)),
        _ => Err(FileError::NoPath(path.display().to_string())),
    }
}

#[cfg(test)]
mod tests;
