//! Replaces a file atomically.
//!
//! - The new content is complete and synced to disk, with the mode and owner of the old file, before it gets the name.
//! - Old and new file are exchanged atomically, and the old content is compared with the content read before: if an
//!   agent has written its file meanwhile, its version is restored, and the change is applied to that version.
//! - After a crash the name has the old or the new file, and at most one temporary file remains, which the ledger
//!   lists.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::confined_path::{ConfinedPath, FileContent, Folder, hash};
use crate::error::BridgeError;

/// The number of attempts against a concurrent writer.
const MAX_EXCHANGES: usize = 100;

/// Observes each step before it touches the disk. Tests use it to kill the process there.
pub trait StepObserver: Send + Sync {
    fn before_step(&self, step: &'static str);
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStepObserver;

impl StepObserver for NoStepObserver {
    fn before_step(&self, _step: &'static str) {}
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceOutcome {
    Done,
    /// The file has changed since it was read; it was left unchanged.
    ChangedMeanwhile,
}

/// Writes this content to the file, if the file is still as read, or still missing.
pub(crate) fn replace(
    location: &ConfinedPath,
    folder: &Folder,
    original: Option<&FileContent>,
    content: &str,
    temporary: &str,
    steps: &dyn StepObserver,
) -> Result<ReplaceOutcome, BridgeError> {
    let (path, temporary) = (location.path(), OsString::from(temporary));
    write_temporary_file(location, folder, original, content, &temporary, steps)?;
    steps.before_step("put the new file in place");
    let Some(original) = original else {
        return match rename(folder, &temporary, &folder.name, RenameFlags::NOREPLACE) {
            Ok(()) => sync_folder(folder, &path).map(|()| ReplaceOutcome::Done),
            Err(Errno::EXIST) => {
                remove_file(folder, &temporary, &path)?;
                Ok(ReplaceOutcome::ChangedMeanwhile)
            }
            Err(error) => Err(replace_error(folder, &temporary, &path, error)),
        };
    };
    if location.fingerprint(folder, &folder.name).as_ref() != Some(&original.hash) {
        remove_file(folder, &temporary, &path)?;
        return Ok(ReplaceOutcome::ChangedMeanwhile);
    }
    // The known current content under the name, and the content before that.
    let (mut current, mut previous) = (hash(content.as_bytes()), original.hash.clone());
    for attempt in 0..MAX_EXCHANGES {
        match rename(folder, &temporary, &folder.name, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // Not every file system supports the exchange; then only the check just before protects.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if attempt == 0 => {
                rename(folder, &temporary, &folder.name, RenameFlags::empty())
                    .map_err(|error| replace_error(folder, &temporary, &path, error))?;
                return sync_folder(folder, &path).map(|()| ReplaceOutcome::Done);
            }
            // An agent may remove its file and write another.
            Err(Errno::NOENT) => {
                remove_file(folder, &temporary, &path)?;
                return Ok(ReplaceOutcome::ChangedMeanwhile);
            }
            Err(error) => return Err(replace_error(folder, &temporary, &path, error)),
        }
        steps.before_step("look at the old file");
        let mut displaced = location.fingerprint(folder, &temporary);
        if attempt == 0 && displaced.as_ref() == Some(&previous) {
            steps.before_step("sync the folder");
            sync_folder(folder, &path)?;
            // Checked again as late as possible: an agent may have had the old file open.
            steps.before_step("look at the old file again");
            displaced = location.fingerprint(folder, &temporary);
        }
        if displaced.as_ref() == Some(&previous) {
            steps.before_step("remove the old file");
            remove_file(folder, &temporary, &path)?;
            return Ok(if attempt == 0 { ReplaceOutcome::Done } else { ReplaceOutcome::ChangedMeanwhile });
        }
        // The exchanged file is newer than the one under the name: restore it.
        (previous, current) = (current, displaced.unwrap_or_default());
    }
    rename(folder, &temporary, &folder.name, RenameFlags::empty())
        .map_err(|error| BridgeError::io(&path, "put back")(error.into()))?;
    Err(BridgeError::Restless(path))
}

/// Removes the file, if it is still as read.
pub(crate) fn remove_if_unchanged(
    location: &ConfinedPath,
    folder: &Folder,
    original: &FileContent,
    temporary: &str,
    steps: &dyn StepObserver,
) -> Result<ReplaceOutcome, BridgeError> {
    let (path, temporary) = (location.path(), OsString::from(temporary));
    steps.before_step("take the file away");
    match rename(folder, &folder.name, &temporary, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(ReplaceOutcome::ChangedMeanwhile),
        Err(error) => return Err(BridgeError::io(&path, "take away")(error.into())),
    }
    steps.before_step("sync the folder");
    sync_folder(folder, &path)?;
    steps.before_step("look at what was taken away");
    if location.fingerprint(folder, &temporary).as_ref() == Some(&original.hash) {
        steps.before_step("remove what was taken away");
        remove_file(folder, &temporary, &path)?;
        return Ok(ReplaceOutcome::Done);
    }
    match rename(folder, &temporary, &folder.name, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A newer file already exists.
        Err(Errno::EXIST) => remove_file(folder, &temporary, &path)?,
        Err(error) => return Err(BridgeError::io(&path, "put back")(error.into())),
    }
    Ok(ReplaceOutcome::ChangedMeanwhile)
}

fn write_temporary_file(
    location: &ConfinedPath,
    folder: &Folder,
    original: Option<&FileContent>,
    content: &str,
    temporary: &OsString,
    steps: &dyn StepObserver,
) -> Result<(), BridgeError> {
    let path = location.path();
    let mode = original.map_or_else(|| location.new_file_mode(), |original| original.mode);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    steps.before_step("make the new file");
    let fd = rustix::fs::openat(&folder.fd, temporary, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| BridgeError::io(&path, "write beside")(error.into()))?;
    let mut file = std::fs::File::from(fd);
    let written = (|| {
        steps.before_step("write the new file");
        let (first, rest) = content.as_bytes().split_at(content.len() / 2);
        file.write_all(first)?;
        steps.before_step("write the rest of the new file");
        file.write_all(rest)?;
        let owner = rustix::fs::fstat(&file)?;
        if let Some((user, group)) =
            original.map(|original| original.owner).filter(|own| *own != (owner.st_uid, owner.st_gid))
        {
            rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        steps.before_step("sync the new file");
        file.sync_all()
    })();
    written.map_err(|error| {
        let _ = remove_file(folder, temporary, &path);
        BridgeError::io(&path, "write beside")(error)
    })
}

fn rename(folder: &Folder, from: &OsString, to: &OsString, flags: RenameFlags) -> Result<(), Errno> {
    match rustix::fs::renameat_with(&folder.fd, from, &folder.fd, to, flags) {
        // The file system does not support flags; the caller has checked that the name is free.
        Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => {
            match rustix::fs::statat(&folder.fd, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => rustix::fs::renameat(&folder.fd, from, &folder.fd, to),
            }
        }
        renamed => renamed,
    }
}

fn replace_error(folder: &Folder, temporary: &OsString, path: &Path, error: Errno) -> BridgeError {
    let _ = remove_file(folder, temporary, path);
    BridgeError::io(path, "replace")(error.into())
}

pub(crate) fn remove_file(folder: &Folder, name: &OsString, path: &Path) -> Result<(), BridgeError> {
    match rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(BridgeError::io(path, "clean up beside")(error.into())),
    }
}

fn sync_folder(folder: &Folder, path: &Path) -> Result<(), BridgeError> {
    rustix::fs::fsync(&folder.fd).map_err(|error| BridgeError::io(path, "sync the folder of")(error.into()))
}
