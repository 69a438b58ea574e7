//! Parsing of server files: the exact message of each mistake, and no value in any message.

mod exposure;
mod folder;
mod good;
mod import;
mod mistakes;
mod secrecy;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plexus_kit::Environment;
use tempfile::TempDir;

use super::{Folder, ServerConfig};

fn environment() -> Environment {
    [("HOME", "/home/ann"), ("TOKEN", "value-of-token"), ("KIND", "sse"), ("EMPTY", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect()
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> (TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o700);
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
        set_mode(&dir.path().join(name), 0o600);
    }
    let folder = Folder::new(dir.path().to_owned(), environment());
    (dir, folder)
}

/// The server of a valid file, without the folder's path in the warnings.
fn server(file: &str, text: &str) -> ServerConfig {
    let (dir, folder) = folder(&[(file, text)]);
    let entries = folder.read();
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    let mut server = entry.server.clone().unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    for warning in &mut server.warnings {
        *warning = plain(dir.path(), warning);
    }
    server
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The text without the folder's path.
fn plain(dir: &Path, text: &str) -> String {
    text.replace(&format!("{}/", dir.display()), "")
}
