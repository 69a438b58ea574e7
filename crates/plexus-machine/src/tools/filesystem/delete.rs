//! `delete`: moves to the trash, or removes permanently.
//!
//! The trash is the freedesktop.org trash of the desktop (`~/.local/share/Trash`), where the owner finds and can
//! restore an entry. An entry on another file system, or one that the policy does not allow there, goes into
//! `.Trash-UID` in the outermost writable folder of its own file system, in the same format. Nothing is copied: the
//! entry itself is moved, and the policy still applies to it.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use plexus_proto::ErrorCode;
use plexus_tools::CallError;

use super::FileCall;
use super::args::Args;
use super::copy::{MAX_ENTRIES, remove_all};
use super::report::{Answer, Change, Output};
use crate::files::{FileError, FileKind, FileLocation, Folder};
use crate::policy::AccessKind;

/// The maximum number of names tried for an entry in the trash.
const MAX_NAMES: usize = 1_000;

impl FileCall {
    pub(super) fn delete(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let location = self.files.movable_entry(path)?;
        let real = location.path();
        let Some(kind) = location.kind() else { return Err(FileError::NotFound(real).into()) };
        self.check_cancelled()?;
        let change = if args.permanent.unwrap_or(false) {
            self.remove(&location, kind)?;
            Change::new(&real, "removed")
        } else {
            let trashed = self.trash(&location)?;
            Change { other: Some(trashed.display().to_string()), ..Change::new(&real, "trashed") }
        };
        let text = match &change.other {
            None => format!("{} removed permanently\n", change.path),
            Some(other) => {
                format!("{} moved to the trash as {other}; action \"move\" restores it\n", change.path)
            }
        };
        Ok(Answer::new(
            text,
            Output { path: change.path.clone(), changes: Some(vec![change]), ..Output::default() },
        ))
    }

    fn remove(&self, location: &FileLocation, kind: FileKind) -> Result<(), CallError> {
        if kind != FileKind::Folder {
            return Ok(location.unlink()?);
        }
        let mut left = MAX_ENTRIES;
        let removed =
            remove_all(location.folder(), location.name(), &mut left, &|| self.cancel.is_cancelled());
        removed.map_err(|error| match error {
            FileError::Stopped => CallError::new(
                ErrorCode::ToolFailed,
                format!(
                    "{} is only partly removed: {} of its entries are gone",
                    location.path().display(),
                    MAX_ENTRIES - left
                ),
            )
            .hint("Call again to continue, or remove the folder with `rm -r` in the terminal."),
            error => error.into(),
        })
    }

    fn trash(&self, location: &FileLocation) -> Result<PathBuf, CallError> {
        let mut last = None;
        for trash in self.trash_folders(location) {
            if location.path().starts_with(&trash) {
                break;
            }
            match self.move_into(location, &trash) {
                Ok(path) => return Ok(path),
                Err(error) => last = Some(error),
            }
        }
        let why = last.map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("{} cannot be moved to a trash folder{why}", location.path().display());
        Err(CallError::new(ErrorCode::ToolFailed, message)
            .hint("Nothing was done. With `permanent` it is removed permanently."))
    }

    /// The possible trash folders for an entry, in order of preference.
    fn trash_folders(&self, location: &FileLocation) -> Vec<PathBuf> {
        let mut trash_folders = Vec::new();
        if let Ok(path) = self.files.path("~/.local/share/Trash") {
            trash_folders.push(path);
        }
        let device = |path: &Path| {
            std::fs::metadata(path).map(|about| std::os::unix::fs::MetadataExt::dev(&about)).ok()
        };
        let own = device(location.folder().path());
        let above = location.folder().path().ancestors();
        let outermost = above
            .take_while(|path| self.files.check(path, AccessKind::Write).is_ok() && device(path) == own)
            .last();
        trash_folders.extend(
            outermost.map(|path| path.join(format!(".Trash-{}", rustix::process::getuid().as_raw()))),
        );
        trash_folders
    }

    fn move_into(&self, location: &FileLocation, trash: &Path) -> Result<PathBuf, FileError> {
        let (_, _) = self.files.make_folder(&trash.join("files"))?;
        let (info, _) = self.files.make_folder(&trash.join("info"))?;
        make_private(&self.files.folder(trash)?);
        let (stem, end) = split_name(location.name());
        for number in 1..=MAX_NAMES {
            let name = numbered_name(&stem, &end, number);
            let mut file_name = name.clone();
            file_name.push(".trashinfo");
            let note = self.files.entry(&info.path().join(&file_name))?;
            let target = self.files.entry(&trash.join("files").join(&name))?;
            if note.stat().is_some() || target.stat().is_some() {
                continue;
            }
            // The info file is written first, so that every entry in the trash has one.
            let text = format!(
                "[Trash Info]\nPath={}\nDeletionDate={}\n",
                percent_encode(&location.path()),
                self.now.strftime("%Y-%m-%dT%H:%M:%S")
            );
            let mut draft = note.new_draft_with(Some(0o600))?;
            draft.file.write_all(text.as_bytes()).map_err(|error| FileError::io(&note.path(), error))?;
            match draft.commit_new() {
                Err(FileError::Exists(_)) => continue,
                done => done?,
            }
            return match location.move_to(&target, false) {
                Ok(()) => Ok(target.path()),
                Err(error) => {
                    let _ = note.unlink();
                    Err(error)
                }
            };
        }
        Err(FileError::Exists(trash.join("files").join(location.name())))
    }
}

/// Makes the trash private to its user.
fn make_private(trash: &Folder) {
    let _ = rustix::fs::fchmod(trash, rustix::fs::Mode::from_raw_mode(0o700));
}

fn split_name(name: &OsStr) -> (OsString, OsString) {
    let path = Path::new(name);
    match (path.file_stem(), path.extension()) {
        (Some(stem), Some(end)) => {
            let mut dotted = OsString::from(".");
            dotted.push(end);
            (stem.to_owned(), dotted)
        }
        _ => (name.to_owned(), OsString::new()),
    }
}

fn numbered_name(stem: &OsStr, end: &OsStr, number: usize) -> OsString {
    let mut name = stem.to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.push(end);
    name
}

/// Percent-encodes a path, as the trash specification requires.
fn percent_encode(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    path.as_os_str()
        .as_bytes()
        .iter()
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
