//! The folder of one snippet, which exists only during its run.
//!
//! | entry | content |
//! |---|---|
//! | `work` | the working folder of the snippet, with its input and output files |
//! | `home`, `tmp` | its `HOME` and its `TMPDIR` |
//! | `stdin` | its standard input, if any |
//!
//! No archives are unpacked here, so none can expand beyond its apparent size.

use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use plexus_kit::private_file;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::args::InputFile;

/// The number of names read from a folder before they are processed.
const NAMES_PER_BATCH: usize = 4096;

#[derive(Debug)]
pub(super) struct SnippetFolder(PathBuf);

impl SnippetFolder {
    /// The folder with this id, which may not exist yet.
    pub(super) fn at(parent: &Path, id: &str) -> Self {
        Self(parent.join(id))
    }

    /// Creates the folder with all its content.
    pub(super) fn create(
        parent: &Path,
        id: &str,
        files: &[InputFile],
        stdin: Option<&str>,
    ) -> io::Result<Self> {
        let snippet_folder = Self::at(parent, id);
        let filled = snippet_folder.fill(files, stdin);
        if filled.is_err() {
            snippet_folder.remove();
        }
        filled.map(|()| snippet_folder)
    }

    fn fill(&self, files: &[InputFile], stdin: Option<&str>) -> io::Result<()> {
        fs::create_dir(&self.0)?;
        for folder in [self.path().to_owned(), self.work(), self.home(), self.tmp()] {
            private_file::create_dir(&folder)?;
        }
        for file in files {
            let path = self.work().join(&file.name);
            if let Some(folder) = path.parent() {
                private_file::create_dir(folder)?;
            }
            write(&path, &file.content)?;
        }
        if let Some(stdin) = stdin {
            write(&self.stdin(), stdin.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn id(&self) -> String {
        self.0.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(super) fn stdin(&self) -> PathBuf {
        self.0.join("stdin")
    }

    /// Removes the folder and its content. If that fails, the next start of the node tries again.
    pub(super) fn remove(&self) {
        if let Err(error) = remove(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %self.0.display(), "the folder of a snippet cannot be removed");
        }
    }
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// Folders left by snippets of an earlier process.
pub(super) fn leftover_folders(parent: &Path) -> io::Result<Vec<SnippetFolder>> {
    let entries = fs::read_dir(parent)?;
    entries.map(|entry| Ok(SnippetFolder(entry?.path()))).collect()
}

/// Removes a folder to which a program may have done anything: endless nesting, or removed permissions. The content
/// of each subfolder is moved up and removed from there, so only two folders are open at a time at any depth.
fn remove(folder: &Path) -> io::Result<()> {
    let top = open(CWD, folder)?;
    let mut number = 0_u64;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            return Ok(rustix::fs::unlinkat(CWD, folder, AtFlags::REMOVEDIR)?);
        }
        for name in names {
            if remove_entry(&top, &name)? {
                continue;
            }
            let inner = open(&top, &name)?;
            for name in self::names(&inner)? {
                if !remove_entry(&inner, &name)? {
                    // Moving a folder requires write permission on the folder itself.
                    rustix::fs::chmodat(&inner, &name, Mode::RWXU, AtFlags::empty())?;
                    rename(&inner, &name, &top, &mut number)?;
                }
            }
        }
    }
}

fn rename(from: &OwnedFd, name: &CString, to: &OwnedFd, number: &mut u64) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    loop {
        *number += 1;
        match renameat_with(from, name, to, format!("{number}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return Ok(done?),
        }
    }
}

/// Returns false if it is a folder that is not empty.
fn remove_entry(folder: &OwnedFd, name: &CString) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder without following symlinks, and makes it readable and writable.
fn open(parent: impl AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(&parent, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    rustix::fs::fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if names.len() == NAMES_PER_BATCH {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
