//! Collects the files that a snippet leaves, as far as they are requested and fit into an answer.
//!
//! Every folder is opened through its parent, and every file through its folder, without following symlinks. So all
//! content that is read is within the snippet's folder, whatever the snippet created there.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use plexus_kit::glob;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use schemars::JsonSchema;
use serde::Serialize;

use crate::tools::output::base64;

/// The maximum number of returned files, and of omitted files that are named.
const MAX_FILES: usize = 256;
const MAX_NAMED: usize = 50;
/// The maximum number of entries examined, and the maximum depth.
const MAX_ENTRIES_EXAMINED: usize = 20_000;
const MAX_DEPTH: usize = 64;
/// The overhead of a file in an answer in addition to its content and name.
const FILE_OVERHEAD: usize = 64;

/// A returned file.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Collected {
    /// Path within the folder; bytes that are not valid UTF-8 are replaced.
    pub(super) name: String,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Instead of `text`, if the content is not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// An omitted file.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) why: OmittedReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OmittedReason {
    /// It does not fit into the answer.
    TooLarge,
    /// The maximum number of files is already reached.
    TooMany,
    /// A symlink, which is not followed.
    Link,
    /// A device, a pipe or a socket.
    Special,
    /// It is nested too deeply.
    TooDeep,
    Unreadable,
}

/// The result of collecting a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CollectedFiles {
    pub(super) files: Vec<Collected>,
    pub(super) left_out: Vec<LeftOut>,
    /// The number of omitted files that are not named.
    pub(super) more: u64,
}

/// The selection of files.
#[derive(Debug)]
pub(super) enum FileSelection {
    /// Files that are new or changed.
    Changed(FileSnapshot),
    Named(Vec<String>),
}

/// Identifies an unchanged file: inode, size and change time. A program cannot set the change time.
type FileStamp = (u64, i64, i64, u64);

/// The files that existed before the run.
#[derive(Debug, Default)]
pub(super) struct FileSnapshot(HashMap<String, FileStamp>);

impl FileSnapshot {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut before = Self::default();
        walk(folder, &mut |entry| {
            before.0.insert(entry.name.clone(), file_stamp(&entry.about));
        })?;
        Ok(before)
    }
}

// The integer types differ between systems.
#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn file_stamp(about: &Stat) -> FileStamp {
    (about.st_ino as u64, about.st_size as i64, about.st_ctime as i64, about.st_ctime_nsec as u64)
}

impl FileSelection {
    fn has(&self, entry: &Entry<'_>) -> bool {
        match self {
            Self::Changed(before) => before.0.get(&entry.name) != Some(&file_stamp(&entry.about)),
            Self::Named(patterns) => patterns.iter().any(|pattern| glob::matches(pattern, &entry.name)),
        }
    }
}

/// Collects the selected files of a folder. The returned files take at most `max_bytes` bytes of JSON.
pub(super) fn collect(
    folder: &Path,
    selection: &FileSelection,
    max_bytes: usize,
) -> io::Result<CollectedFiles> {
    let mut found = CollectedFiles::default();
    let mut remaining = max_bytes;
    let looked_at = walk(folder, &mut |entry| {
        if !selection.has(&entry) {
            return;
        }
        let content = match entry.kind() {
            _ if entry.too_deep => Err(OmittedReason::TooDeep),
            FileType::RegularFile if found.files.len() == MAX_FILES => Err(OmittedReason::TooMany),
            FileType::RegularFile => entry.read(remaining),
            FileType::Symlink => Err(OmittedReason::Link),
            _ => Err(OmittedReason::Special),
        };
        match content {
            Ok((file, size_in_answer)) => {
                remaining -= size_in_answer;
                found.files.push(file);
            }
            Err(why) if found.left_out.len() < MAX_NAMED => {
                found.left_out.push(LeftOut { bytes: entry.size(), name: entry.name, why });
            }
            Err(_) => found.more += 1,
        }
    })?;
    found.more += u64::from(!looked_at);
    Ok(found)
}

/// An entry of the folder that is not itself a folder.
struct Entry<'e> {
    name: String,
    parent: &'e OwnedFd,
    last: &'e CString,
    about: Stat,
    too_deep: bool,
}

impl Entry<'_> {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.about.st_mode)
    }

    fn size(&self) -> u64 {
        u64::try_from(self.about.st_size).unwrap_or(0)
    }

    /// Reads the whole file. Also returns its size in the answer.
    fn read(&self, max_bytes: usize) -> Result<(Collected, usize), OmittedReason> {
        // Check the size first, because a sparse file may be huge.
        if self.size() > max_bytes as u64 {
            return Err(OmittedReason::TooLarge);
        }
        // Non-blocking, because the file may have been replaced by a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            openat(self.parent, self.last, flags, Mode::empty()).map_err(|_| OmittedReason::Unreadable)?;
        let about = fstat(&file).map_err(|_| OmittedReason::Unreadable)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(OmittedReason::Special);
        }
        let mut content = Vec::new();
        File::from(file)
            .take(max_bytes as u64 + 1)
            .read_to_end(&mut content)
            .map_err(|_| OmittedReason::Unreadable)?;
        let bytes = content.len() as u64;
        let (text, base64) = match String::from_utf8(content) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64(error.as_bytes()))),
        };
        let file = Collected { name: self.name.clone(), bytes, text, base64 };
        let size_in_answer = super::report::json_length(&file) + FILE_OVERHEAD;
        if size_in_answer > max_bytes { Err(OmittedReason::TooLarge) } else { Ok((file, size_in_answer)) }
    }
}

/// Passes all entries below a folder that are not folders, in name order. Returns false if the limit on entries was
/// reached.
fn walk(folder: &Path, visit: &mut impl FnMut(Entry<'_>)) -> io::Result<bool> {
    let mut remaining = MAX_ENTRIES_EXAMINED;
    let opened = open(CWD, folder)?;
    descend(&opened, "", 0, &mut remaining, visit);
    Ok(remaining > 0)
}

fn descend(
    folder: &OwnedFd,
    path: &str,
    depth: usize,
    remaining: &mut usize,
    visit: &mut impl FnMut(Entry<'_>),
) {
    let mut names: Vec<CString> = Vec::new();
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        let is_one = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        if is_one && names.len() < *remaining {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    for last in &names {
        if *remaining == 0 {
            return;
        }
        *remaining -= 1;
        let name = format!("{path}{}", String::from_utf8_lossy(last.to_bytes()));
        let Ok(about) = statat(folder, last, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let is_folder = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        if is_folder && depth < MAX_DEPTH {
            if let Ok(inner) = open(folder, last) {
                descend(&inner, &format!("{name}/"), depth + 1, remaining, visit);
            }
            continue;
        }
        visit(Entry { name, parent: folder, last, about, too_deep: is_folder });
    }
}

fn open(parent: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests;
