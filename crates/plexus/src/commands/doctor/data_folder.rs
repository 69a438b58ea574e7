//! Whether the data folder and what is in it belong to this user and are closed to others.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plexus_hub::{DataDirState, data_dir_state};
use plexus_kit::config::FILE_NAME;

use super::{Finding, Subject};
use crate::shell;

const CHECK: &str = "data folder";

/// What the other checks may expect in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// A hub was started on it.
    Ours,
    /// None was yet.
    Unused,
    /// No hub can be.
    Unusable,
}

pub(super) fn check(subject: &Subject) -> (Vec<Finding>, Folder) {
    let path = &subject.config.data_dir;
    let shown = path.display();
    let unusable =
        |message: String, fix: &str| (vec![Finding::problem(CHECK, message, fix)], Folder::Unusable);
    let unused = |message: String| {
        (vec![Finding::warning(CHECK, message, format!("{} up", subject.plexus))], Folder::Unused)
    };
    let metadata = match fs_err::metadata(path) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => return unusable(format!("{shown} is not a folder"), "name another with --data-dir"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return unused(format!(
                "{shown} does not exist yet: the hub makes it, with its database, key and admin token, when it first \
                 starts"
            ));
        }
        Err(error) => return unusable(error.to_string(), "run this as the user of the hub"),
    };
    match data_dir_state(path) {
        Ok(DataDirState::Ours) => (closed(path, &metadata), Folder::Ours),
        Ok(DataDirState::Empty) => unused(format!(
            "{shown} is not used yet: the hub puts its database, key and admin token there when it first starts"
        )),
        Ok(DataDirState::Foreign) => unusable(
            format!("{shown} is not empty and not a data folder of Plexus"),
            "name another with --data-dir",
        ),
        Err(error) => unusable(error.to_string(), "run this as the user of the hub"),
    }
}

/// Whether it belongs to this user, and to no other.
fn closed(folder: &Path, metadata: &Metadata) -> Vec<Finding> {
    let shown = folder.display();
    let mut found = Vec::new();
    let own = rustix::process::geteuid();
    if metadata.uid() != own.as_raw() && !own.is_root() {
        let message = format!("{shown} belongs to user {}, not to you", metadata.uid());
        found.push(Finding::problem(
            CHECK,
            message,
            format!("sudo chown -R \"$(id -u)\" {}", shell::word(folder)),
        ));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let message = format!("{shown} has mode {mode:04o}: others can look into it");
        found.push(Finding::problem(CHECK, message, format!("chmod 700 {}", shell::word(folder))));
    }
    let open = open_files(folder);
    if !open.is_empty() {
        let names: Vec<_> = open.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        let words: Vec<_> = open.iter().map(|path| shell::word(path)).collect();
        let message = format!("others can read {}", names.join(", "));
        found.push(Finding::problem(CHECK, message, format!("chmod 600 {}", words.join(" "))));
    }
    if found.is_empty() {
        found.push(Finding::ok(CHECK, format!("{shown}, closed to others")));
    }
    found
}

/// Files that others could read if they came into the folder. The configuration is written by a
/// person and holds no secrets, so its mode is left to them.
fn open_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    let open = entries.filter_map(Result::ok).filter(|entry| {
        let metadata = entry.metadata();
        let open = metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o077 != 0);
        open && entry.file_name() != FILE_NAME
    });
    let mut open: Vec<_> = open.map(|entry| entry.path()).collect();
    open.sort();
    open
}
