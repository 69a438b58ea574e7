//! Lists folders and identifies files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Dir, Stat};

use super::args::{Entry, EntryKind, Output};
use crate::files::{FileError, FileKind, Files};

/// The maximum number of entries per answer.
const MAX_LISTED: usize = 1000;

/// The entry at a path. A missing entry is a valid answer.
pub(super) fn stat(files: &Files, path: &Path) -> Result<Output, FileError> {
    match files.open_handle(path) {
        Ok(handle) => {
            let name = handle.path().to_string_lossy().into_owned();
            Ok(Output { entry: Some(entry(name, handle.stat())), ..Output::default() })
        }
        Err(FileError::NotFound(path)) => {
            let name = path.to_string_lossy().into_owned();
            let nothing = Entry {
                name,
                what: EntryKind::Nothing,
                size: 0,
                mode: 0,
                modified: "0".to_owned(),
                identity: String::new(),
            };
            Ok(Output { entry: Some(nothing), ..Output::default() })
        }
        Err(error) => Err(error),
    }
}

/// The entries of a folder in name order, after the given name.
pub(super) fn list(files: &Files, path: &Path, after: Option<&str>) -> Result<Output, FileError> {
    let folder = files.folder(path)?;
    let failed = |error: rustix::io::Errno| FileError::io(folder.path(), error);
    let (mut names, mut unnamed) = (Vec::new(), 0);
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match entry.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) if after.is_none_or(|after| name > after) => names.push(name.to_owned()),
            Ok(_) => {}
            Err(_) => unnamed += 1,
        }
    }
    names.sort_unstable();
    let more = names.len() > MAX_LISTED;
    names.truncate(MAX_LISTED);
    let mut entries = Vec::new();
    for name in names {
        let stat = folder.stat(OsStr::from_bytes(name.as_bytes()));
        // Skip entries that were removed meanwhile.
        if let Some(stat) = stat.map_err(|error| FileError::io(&folder.path().join(&name), error))? {
            entries.push(entry(name, &stat));
        }
    }
    let unnamed = Some(unnamed).filter(|count| *count > 0);
    Ok(Output { entries: Some(entries), more, unnamed, ..Output::default() })
}

fn entry(name: String, stat: &Stat) -> Entry {
    Entry {
        name,
        what: match FileKind::of(stat) {
            FileKind::File => EntryKind::File,
            FileKind::Folder => EntryKind::Folder,
            FileKind::Link => EntryKind::Link,
            FileKind::Special => EntryKind::Special,
        },
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o777,
        modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        identity: identity(stat),
    }
}

/// An identity that differs for another file, and for the same file with other content.
pub(super) fn identity(stat: &Stat) -> String {
    format!(
        "{:x}-{:x}-{:x}-{}-{}",
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        nanoseconds(stat.st_ctime, stat.st_ctime_nsec)
    )
}

// The integer types differ between systems.
#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn nanoseconds(seconds: i64, nanoseconds: impl TryInto<i64>) -> String {
    let nanoseconds = nanoseconds.try_into().unwrap_or(0);
    (i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)).max(0).to_string()
}
