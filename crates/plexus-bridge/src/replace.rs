//! Replaces a file atomically.
//!
//! - The new content is complete and synced to disk, with the mode and owner of the old file, before it gets the name.
//! - Old and new file are exchanged atomically, and the old content is compared with the content read before: if an agent has written
//!   its file meanwhile, its version is restored, and the change is applied to that version.
//! - After a crash the name has the old or the new file, and at most one temporary file remains, which the ledger lists.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::confined_path::{ConfinedPath, FileContent, Folder, hash};
use crate::error::BridgeError;

/// The number of attempts against a concurrent writer.
const TRADES: usize = 100;

/// Observes each step before it touches the disk. Tests use it to kill the process there.
pub trait Steps: Send + Sync {
    fn about_to(&self, step: &'static str);
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Steps for Unwatched {
    fn about_to(&self, _step: &'static str) {}
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    Done,
    /// The file has changed since it was read; it was left unchanged.
    Changed,
}

/// Writes this content to the file, if the file is still as read, or still missing.
pub(crate) fn replace(
    place: &ConfinedPath,
    folder: &Folder,
    was: Option<&FileContent>,
    content: &str,
    beside: &str,
    steps: &dyn Steps,
) -> Result<Replaced, BridgeError> {
    let (path, beside) = (place.path(), OsString::from(beside));
    write_beside(place, folder, was, content, &beside, steps)?;
    steps.about_to("put the new file in place");
    let Some(was) = was else {
        return match rename(folder, &beside, &folder.name, RenameFlags::NOREPLACE) {
            Ok(()) => synced(folder, &path).map(|()| Replaced::Done),
            Err(Errno::EXIST) => {
                remove(folder, &beside, &path)?;
                Ok(Replaced::Changed)
            }
            Err(error) => Err(failed(folder, &beside, &path, error)),
        };
    };
    if place.seen(folder, &folder.name).as_ref() != Some(&was.hash) {
        remove(folder, &beside, &path)?;
        return Ok(Replaced::Changed);
    }
    // The known current content under the name, and the content before that.
    let (mut here, mut before) = (hash(content.as_bytes()), was.hash.clone());
    for trade in 0..TRADES {
        match rename(folder, &beside, &folder.name, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // Not every file system supports the exchange; then only the check just before protects.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if trade == 0 => {
                rename(folder, &beside, &folder.name, RenameFlags::empty())
                    .map_err(|error| failed(folder, &beside, &path, error))?;
                return synced(folder, &path).map(|()| Replaced::Done);
            }
            // An agent may remove its file and write another.
            Err(Errno::NOENT) => {
                remove(folder, &beside, &path)?;
                return Ok(Replaced::Changed);
            }
            Err(error) => return Err(failed(folder, &beside, &path, error)),
        }
        steps.about_to("look at the old file");
        let mut out = place.seen(folder, &beside);
        if trade == 0 && out.as_ref() == Some(&before) {
            steps.about_to("sync the folder");
            synced(folder, &path)?;
            // Checked again as late as possible: an agent may have had the old file open.
            steps.about_to("look at the old file again");
            out = place.seen(folder, &beside);
        }
        if out.as_ref() == Some(&before) {
            steps.about_to("remove the old file");
            remove(folder, &beside, &path)?;
            return Ok(if trade == 0 { Replaced::Done } else { Replaced::Changed });
        }
        // The exchanged file is newer than the one under the name: restore it.
        (before, here) = (here, out.unwrap_or_default());
    }
    rename(folder, &beside, &folder.name, RenameFlags::empty())
        .map_err(|error| BridgeError::io(&path, "put back")(error.into()))?;
    Err(BridgeError::Restless(path))
}

/// Removes the file, if it is still as read.
pub(crate) fn take_away(
    place: &ConfinedPath,
    folder: &Folder,
    was: &FileContent,
    beside: &str,
    steps: &dyn Steps,
) -> Result<Replaced, BridgeError> {
    let (path, beside) = (place.path(), OsString::from(beside));
    steps.about_to("take the file away");
    match rename(folder, &folder.name, &beside, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Replaced::Changed),
        Err(error) => return Err(BridgeError::io(&path, "take away")(error.into())),
    }
    steps.about_to("sync the folder");
    synced(folder, &path)?;
    steps.about_to("look at what was taken away");
    if place.seen(folder, &beside).as_ref() == Some(&was.hash) {
        steps.about_to("remove what was taken away");
        remove(folder, &beside, &path)?;
        return Ok(Replaced::Done);
    }
    match rename(folder, &beside, &folder.name, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A newer file already exists.
        Err(Errno::EXIST) => remove(folder, &beside, &path)?,
        Err(error) => return Err(BridgeError::io(&path, "put back")(error.into())),
    }
    Ok(Replaced::Changed)
}

fn write_beside(
    place: &ConfinedPath,
    folder: &Folder,
    was: Option<&FileContent>,
    content: &str,
    beside: &OsString,
    steps: &dyn Steps,
) -> Result<(), BridgeError> {
    let path = place.path();
    let mode = was.map_or_else(|| place.new_file_mode(), |was| was.mode);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    steps.about_to("make the new file");
    let fd = rustix::fs::openat(&folder.fd, beside, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| BridgeError::io(&path, "write beside")(error.into()))?;
    let mut file = std::fs::File::from(fd);
    let written = (|| {
        steps.about_to("write the new file");
        let (first, rest) = content.as_bytes().split_at(content.len() / 2);
        file.write_all(first)?;
        steps.about_to("write the rest of the new file");
        file.write_all(rest)?;
        let owner = rustix::fs::fstat(&file)?;
        if let Some((user, group)) =
            was.map(|was| was.owner).filter(|own| *own != (owner.st_uid, owner.st_gid))
        {
            rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        steps.about_to("sync the new file");
        file.sync_all()
    })();
    written.map_err(|error| {
        let _ = remove(folder, beside, &path);
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

fn failed(folder: &Folder, beside: &OsString, path: &Path, error: Errno) -> BridgeError {
    let _ = remove(folder, beside, path);
    BridgeError::io(path, "replace")(error.into())
}

pub(crate) fn remove(folder: &Folder, name: &OsString, path: &Path) -> Result<(), BridgeError> {
    match rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(BridgeError::io(path, "clean up beside")(error.into())),
    }
}

fn synced(folder: &Folder, path: &Path) -> Result<(), BridgeError> {
    rustix::fs::fsync(&folder.fd).map_err(|error| BridgeError::io(path, "sync the folder of")(error.into()))
}
