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
use super::copy::{MOST, remove_all};
use super::report::{Answer, Change, Output};
use crate::files::{FileError, FileLocation, Folder, Kind};
use crate::policy::Want;

/// The maximum number of names tried for an entry in the trash.
const NAMES: usize = 1_000;

impl FileCall {
    pub(super) fn delete(&self, path: &Path, args: &Args) -> Result<Answer, CallError> {
        let place = self.files.whole(path)?;
        let real = place.path();
        let Some(kind) = place.kind() else { return Err(FileError::NotFound(real).into()) };
        self.check_cancelled()?;
        let change = if args.permanent.unwrap_or(false) {
            self.remove(&place, kind)?;
            Change::new(&real, "removed")
        } else {
            let trashed = self.trash(&place)?;
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

    fn remove(&self, place: &FileLocation, kind: Kind) -> Result<(), CallError> {
        if kind != Kind::Folder {
            return Ok(place.unlink()?);
        }
        let mut left = MOST;
        let removed = remove_all(place.folder(), place.name(), &mut left, &|| self.cancel.is_cancelled());
        removed.map_err(|error| match error {
            FileError::Stopped => CallError::new(
                ErrorCode::ToolFailed,
                format!(
                    "{} is only partly removed: {} of its entries are gone",
                    place.path().display(),
                    MOST - left
                ),
            )
            .hint("Call again to continue, or remove the folder with `rm -r` in the terminal."),
            error => error.into(),
        })
    }

    fn trash(&self, place: &FileLocation) -> Result<PathBuf, CallError> {
        let mut last = None;
        for trash in self.trashes(place) {
            if place.path().starts_with(&trash) {
                break;
            }
            match self.put_into(place, &trash) {
                Ok(path) => return Ok(path),
                Err(error) => last = Some(error),
            }
        }
        let why = last.map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("{} cannot be moved to a trash folder{why}", place.path().display());
        Err(CallError::new(ErrorCode::ToolFailed, message)
            .hint("Nothing was done. With `permanent` it is removed permanently."))
    }

    /// The possible trash folders for an entry, in order of preference.
    fn trashes(&self, place: &FileLocation) -> Vec<PathBuf> {
        let mut trashes = Vec::new();
        if let Ok(path) = self.files.path("~/.local/share/Trash") {
            trashes.push(path);
        }
        let device = |path: &Path| {
            std::fs::metadata(path).map(|about| std::os::unix::fs::MetadataExt::dev(&about)).ok()
        };
        let own = device(place.folder().path());
        let above = place.folder().path().ancestors();
        let outermost = above
            .take_while(|path| self.files.check(path, Want::Write).is_ok() && device(path) == own)
            .last();
        trashes.extend(
            outermost.map(|path| path.join(format!(".Trash-{}", rustix::process::getuid().as_raw()))),
        );
        trashes
    }

    fn put_into(&self, place: &FileLocation, trash: &Path) -> Result<PathBuf, FileError> {
        let (_, _) = self.files.make_folder(&trash.join("files"))?;
        let (info, _) = self.files.make_folder(&trash.join("info"))?;
        private(&self.files.folder(trash)?);
        let (stem, end) = split_name(place.name());
        for number in 1..=NAMES {
            let name = numbered(&stem, &end, number);
            let mut file_name = name.clone();
            file_name.push(".trashinfo");
            let note = self.files.entry(&info.path().join(&file_name))?;
            let target = self.files.entry(&trash.join("files").join(&name))?;
            if note.about().is_some() || target.about().is_some() {
                continue;
            }
            // The info file is written first, so that every entry in the trash has one.
            let text = format!(
                "[Trash Info]\nPath={}\nDeletionDate={}\n",
                escaped(&place.path()),
                self.now.strftime("%Y-%m-%dT%H:%M:%S")
            );
            let mut draft = note.draft_with(Some(0o600))?;
            draft.file.write_all(text.as_bytes()).map_err(|error| FileError::io(&note.path(), error))?;
            match draft.put_new() {
                Err(FileError::Exists(_)) => continue,
                done => done?,
            }
            return match place.move_to(&target, false) {
                Ok(()) => Ok(target.path()),
                Err(error) => {
                    let _ = note.unlink();
                    Err(error)
                }
            };
        }
        Err(FileError::Exists(trash.join("files").join(place.name())))
    }
}

/// Makes the trash private to its user.
fn private(trash: &Folder) {
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

fn numbered(stem: &OsStr, end: &OsStr, number: usize) -> OsString {
    let mut name = stem.to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.push(end);
    name
}

/// Percent-encodes a path, as the trash specification requires.
fn escaped(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    path.as_os_str()
        .as_bytes()
        .iter()
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
