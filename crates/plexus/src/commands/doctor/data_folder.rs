//! Checks that the data folder and its files belong to this user and are private.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plexus_hub::{DataDirState, data_dir_state};
use plexus_kit::config::FILE_NAME;

use super::{CheckContext, Finding};
use crate::shell;

const CHECK: &str = "data folder";

/// How the folder is used, for the other checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderState {
    /// A hub was started on it.
    Ours,
    /// No hub was started on it yet.
    Unused,
    /// No hub can be started on it.
    Unusable,
}

pub(super) fn check(context: &CheckContext) -> (Vec<Finding>, FolderState) {
    let path = &context.config.data_dir;
    let shown = path.display();
    let unusable =
        |message: String, fix: &str| (vec![Finding::problem(CHECK, message, fix)], FolderState::Unusable);
    let unused = |message: String| {
        (vec![Finding::warning(CHECK, message, format!("{} up", context.plexus))], FolderState::Unused)
    };
    let metadata = match fs_err::metadata(path) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            return unusable(format!("{shown} is not a folder"), "choose another folder with --data-dir");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return unused(format!(
                "{shown} does not exist yet: the hub creates it, with its database, key and admin token, at its first \
                 start"
            ));
        }
        Err(error) => return unusable(error.to_string(), "run this as the user of the hub"),
    };
    match data_dir_state(path) {
        Ok(DataDirState::Ours) => (check_access(path, &metadata), FolderState::Ours),
        Ok(DataDirState::Empty) => unused(format!(
            "{shown} is not used yet: the hub creates its database, key and admin token there at its first start"
        )),
        Ok(DataDirState::Foreign) => unusable(
            format!("{shown} is neither empty nor a data folder of Plexus"),
            "choose another folder with --data-dir",
        ),
        Err(error) => unusable(error.to_string(), "run this as the user of the hub"),
    }
}

/// Checks owner and modes.
fn check_access(folder: &Path, metadata: &Metadata) -> Vec<Finding> {
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
        let message = format!("{shown} has mode {mode:04o}: others can access it");
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
        found.push(Finding::ok(CHECK, format!("{shown}, private")));
    }
    found
}

/// Files whose mode lets others read them. The configuration file is excluded: it is written by the user and
/// should contain no secrets.
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
