//! Files and folders that only their owner can read.
//!
//! A private file is never readable by other users, not even between creation and `chmod`: it is created with
//! its final mode, filled, and renamed into place.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Creates the folder and its parents with mode 0700; narrows the mode of an existing one.
pub fn create_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot create folder {}: {e}", path.display())))?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, std::fs::Permissions::from_mode(DIR_MODE))?;
    }
    Ok(())
}

/// Replaces the file atomically: readers see the old or the new content, even after a power loss.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, content, true)
}

/// As [`write`], but a power loss may restore the old content.
pub fn write_unsynced(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, content, false)
}

fn replace(path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
    // Unique, because other tasks can write this file at the same time, or another one in the folder.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".tmp{:016x}", rand::random::<u64>()));
    let temporary = Path::new(&temporary);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(temporary)?;
        file.write_all(content)?;
        if sync {
            file.sync_all()?;
        }
        fs::rename(temporary, path)
    })();
    if written.is_err() {
        // The error is about the write.
        let _ = fs::remove_file(temporary);
    }
    written?;
    if sync && let Some(parent) = path.parent() {
        fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// The content, or `None` if the file does not exist. A file readable by other users is an error.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    if mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{path} has mode {:04o} and may have been read by others; run `chmod 600 {path}` and replace the \
                 secret if they should not have it",
                mode & 0o7777,
                path = path.display(),
            ),
        ));
    }
    fs::read(path).map(Some)
}

/// Opens a private file for reading and writing in place; creates it if necessary.
pub fn open(path: &Path) -> io::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path);
    file.map_err(|e| io::Error::new(e.kind(), format!("cannot open {}: {e}", path.display())))
}

#[cfg(test)]
mod tests;
