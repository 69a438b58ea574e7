//! The files that a snippet leaves, as far as they are wanted and fit into an answer.
//!
//! Every folder is opened through the one before it and through no link, and so is every file: what is read is in the folder
//! of the snippet, whatever was planted there.

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

/// Files that are given back, and those that are named without being given.
const FILES: usize = 256;
const NAMED: usize = 50;
/// Files and folders that are looked at, and folders in folders.
const LOOKED_AT: usize = 20_000;
const DEPTH: usize = 64;
/// What a file takes in an answer beside its content and its name.
const AROUND: usize = 64;

/// A file that is given back.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Collected {
    /// Path within the folder; what is no UTF-8 is replaced.
    pub(super) name: String,
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Instead of `text`, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
}

/// A file that is not.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// There is no room for it in the answer.
    TooLarge,
    /// There are too many before it.
    TooMany,
    /// A link, which is not followed.
    Link,
    /// A device, a pipe or a socket.
    Special,
    /// In too many folders.
    TooDeep,
    Unreadable,
}

/// What became of the folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) files: Vec<Collected>,
    pub(super) left_out: Vec<LeftOut>,
    /// Left out and not named.
    pub(super) more: u64,
}

/// Which files are wanted.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Those that are not as they were.
    Changed(Before),
    Named(Vec<String>),
}

/// What a file is known by while nobody changes it. The last of these cannot be set by a program.
type Mark = (u64, i64, i64, u64);

/// The files that were there before.
#[derive(Debug, Default)]
pub(super) struct Before(HashMap<String, Mark>);

impl Before {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut before = Self::default();
        walk(folder, &mut |entry| {
            before.0.insert(entry.name.clone(), mark(&entry.about));
        })?;
        Ok(before)
    }
}

// The width of these differs between systems.
#[allow(clippy::unnecessary_cast, trivial_numeric_casts)]
fn mark(about: &Stat) -> Mark {
    (about.st_ino as u64, about.st_size as i64, about.st_ctime as i64, about.st_ctime_nsec as u64)
}

impl Wanted {
    fn has(&self, entry: &Entry<'_>) -> bool {
        match self {
            Self::Changed(before) => before.0.get(&entry.name) != Some(&mark(&entry.about)),
            Self::Named(patterns) => patterns.iter().any(|pattern| glob::matches(pattern, &entry.name)),
        }
    }
}

/// Looks through a folder; the files that are given take no more than `room` bytes of JSON.
pub(super) fn collect(folder: &Path, wanted: &Wanted, room: usize) -> io::Result<Found> {
    let mut found = Found::default();
    let mut left = room;
    let looked_at = walk(folder, &mut |entry| {
        if !wanted.has(&entry) {
            return;
        }
        let given = match entry.kind() {
            _ if entry.too_deep => Err(Why::TooDeep),
            FileType::RegularFile if found.files.len() == FILES => Err(Why::TooMany),
            FileType::RegularFile => entry.read(left),
            FileType::Symlink => Err(Why::Link),
            _ => Err(Why::Special),
        };
        match given {
            Ok((file, taken)) => {
                left -= taken;
                found.files.push(file);
            }
            Err(why) if found.left_out.len() < NAMED => {
                found.left_out.push(LeftOut { bytes: entry.size(), name: entry.name, why });
            }
            Err(_) => found.more += 1,
        }
    })?;
    found.more += u64::from(!looked_at);
    Ok(found)
}

/// Something in the folder that is no folder itself.
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

    /// All of it, and what it takes of an answer.
    fn read(&self, room: usize) -> Result<(Collected, usize), Why> {
        // Before it is read: it may be all hole.
        if self.size() > room as u64 {
            return Err(Why::TooLarge);
        }
        // Without waiting: it may be a pipe by now.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(self.parent, self.last, flags, Mode::empty()).map_err(|_| Why::Unreadable)?;
        let about = fstat(&file).map_err(|_| Why::Unreadable)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(Why::Special);
        }
        let mut content = Vec::new();
        File::from(file).take(room as u64 + 1).read_to_end(&mut content).map_err(|_| Why::Unreadable)?;
        let bytes = content.len() as u64;
        let (text, base64) = match String::from_utf8(content) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64(error.as_bytes()))),
        };
        let file = Collected { name: self.name.clone(), bytes, text, base64 };
        let taken = super::report::json_length(&file) + AROUND;
        if taken > room { Err(Why::TooLarge) } else { Ok((file, taken)) }
    }
}

/// Tells everything below a folder that is no folder, in the order of names. False: there is more than is looked at.
fn walk(folder: &Path, tell: &mut impl FnMut(Entry<'_>)) -> io::Result<bool> {
    let mut left = LOOKED_AT;
    let opened = open(CWD, folder)?;
    descend(&opened, "", 0, &mut left, tell);
    Ok(left > 0)
}

fn descend(folder: &OwnedFd, path: &str, depth: usize, left: &mut usize, tell: &mut impl FnMut(Entry<'_>)) {
    let mut names: Vec<CString> = Vec::new();
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        let is_one = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        if is_one && names.len() < *left {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    for last in &names {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let name = format!("{path}{}", String::from_utf8_lossy(last.to_bytes()));
        let Ok(about) = statat(folder, last, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let is_folder = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        if is_folder && depth < DEPTH {
            if let Ok(inner) = open(folder, last) {
                descend(&inner, &format!("{name}/"), depth + 1, left, tell);
            }
            continue;
        }
        tell(Entry { name, parent: folder, last, about, too_deep: is_folder });
    }
}

fn open(parent: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests;
