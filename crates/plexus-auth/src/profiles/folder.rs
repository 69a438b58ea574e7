//! Reads the folder that contains one folder per profile.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::Reader;
use super::{Profile, ProfileEntry, ProfileProblem, ProfileSource, Profiles};

/// Maximum number of profiles; further ones, in name order, are reported as errors.
const MAX_PROFILES: usize = 200;
/// Maximum size of a profile's file; a larger one is an error.
const MAX_BYTES: u64 = 64 * 1024;

const CONFIG: &str = "config.json";
const SYSTEM_PROMPT: &str = "system_prompt.txt";
const SUBAGENT_SYSTEM_PROMPT: &str = "subagent_system_prompt.txt";

/// Identifies a state of the folder's files without reading them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fingerprint(Vec<(PathBuf, Option<Stamp>)>);

/// Metadata that changes with a file: inode, length, mtime and ctime.
type Stamp = (u64, u64, (i64, i64), (i64, i64));

fn stamp(metadata: &Metadata) -> Stamp {
    let content = (metadata.mtime(), metadata.mtime_nsec());
    (metadata.ino(), metadata.len(), content, (metadata.ctime(), metadata.ctime_nsec()))
}

pub(super) fn fingerprint(folder: &Path) -> Fingerprint {
    let mut files = vec![(folder.to_owned(), fs::metadata(folder).ok().map(|file| stamp(&file)))];
    for id in ids(folder).unwrap_or_default().into_iter().take(MAX_PROFILES) {
        for name in [CONFIG, SYSTEM_PROMPT, SUBAGENT_SYSTEM_PROMPT] {
            let path = folder.join(&id).join(name);
            let found = fs::metadata(&path).ok().map(|file| stamp(&file));
            files.push((path, found));
        }
    }
    Fingerprint(files)
}

/// Names of the folders in a folder, sorted; empty if it does not exist.
fn ids(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Ignores files beside the profiles, and hidden folders of editors and version control.
        if path.is_dir() && !name.starts_with('.') {
            ids.push(name);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// The profiles of a folder, which replace built-in ones with the same id.
pub(super) fn read(folder: &Path, reader: &Reader, shipped: &Profiles) -> Profiles {
    let mut entries: BTreeMap<String, ProfileEntry> = shipped.0.clone();
    let ids = match ids(folder) {
        Ok(ids) => ids,
        Err(error) => {
            // It is unknown which built-in profiles are replaced by narrower ones, so all become invalid.
            let problem = whole(folder, format!("cannot be read: {error}"));
            for entry in entries.values_mut() {
                *entry = broken(folder.to_owned(), vec![problem.clone()]);
            }
            return Profiles(entries);
        }
    };
    for (index, id) in ids.into_iter().enumerate() {
        let path = folder.join(&id).join(CONFIG);
        let profile = match index < MAX_PROFILES {
            true => read_one(reader, &id, &path),
            false => {
                Err(vec![whole(&path, format!("is not read: there are more than {MAX_PROFILES} profiles"))])
            }
        };
        let source = ProfileSource::File(path);
        entries.insert(id, ProfileEntry { source, profile: profile.map(Arc::new) });
    }
    Profiles(entries)
}

fn read_one(reader: &Reader, id: &str, path: &Path) -> Result<Profile, Vec<ProfileProblem>> {
    let mut problems = Vec::new();
    if !is_id(id) {
        let why = format!("{id:?} is not a valid profile name: use 1 to 64 letters, digits, _ and -");
        problems.push(whole(path, why));
    }
    let text = match bounded(path) {
        Ok(Some(text)) => Some(text),
        Ok(None) => {
            problems.push(whole(path, "does not exist, so the folder is not a profile".to_owned()));
            None
        }
        Err(why) => {
            problems.push(whole(path, why));
            None
        }
    };
    let mut prompt = |name: &str| {
        let path = path.with_file_name(name);
        match bounded(&path) {
            Ok(text) => text.filter(|text| !text.trim().is_empty()),
            Err(why) => {
                problems.push(whole(&path, why));
                None
            }
        }
    };
    let (system_prompt, subagent_system_prompt) = (prompt(SYSTEM_PROMPT), prompt(SUBAGENT_SYSTEM_PROMPT));
    let profile = match text.map(|text| reader.read(id, path, &text)) {
        Some(Ok(profile)) => Some(profile),
        Some(Err(found)) => {
            problems.extend(found);
            None
        }
        None => None,
    };
    match profile {
        Some(profile) if problems.is_empty() => {
            Ok(Profile { system_prompt, subagent_system_prompt, ..profile })
        }
        _ => Err(problems),
    }
}

/// The text of a file; `None` if it does not exist.
fn bounded(path: &Path) -> Result<Option<String>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    // Reading a pipe would block until its writer closes it.
    if !metadata.is_file() {
        return Err("is not a file".to_owned());
    }
    let too_long = || format!("has more than {MAX_BYTES} bytes");
    if metadata.len() > MAX_BYTES {
        return Err(too_long());
    }
    // The file may have grown since.
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(too_long()),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err("is not UTF-8".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn whole(path: &Path, message: String) -> ProfileProblem {
    ProfileProblem { file: path.to_owned(), field: String::new(), message }
}

fn broken(path: PathBuf, problems: Vec<ProfileProblem>) -> ProfileEntry {
    ProfileEntry { source: ProfileSource::File(path), profile: Err(problems) }
}
