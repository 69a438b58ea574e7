//! The file system as a policy allows it, as input for both kinds of sandbox.
//!
//! Neither kind can revoke access to a part of what it has allowed. So a folder is allowed as a whole only if it
//! contains no exception, existing or not. Of any other folder, each entry is handled separately, and nothing can be
//! created directly in it, because a new file could have the name of an exception.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::policy::{AccessKind, FileRules, PathPattern, PathRefused};

/// The access to a file, or to a folder including everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Hidden,
    /// A folder that contains exceptions: its names are visible, and each entry is listed separately.
    List,
    Read,
    Write,
    /// A symlink, whose target is handled separately.
    Link,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) is_dir: bool,
}

/// What every program needs to start: programs, libraries, and name lookup. Readable whatever `files.read` says,
/// unless denied.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
];

/// Handled separately, because their content is provided by the kernel.
const SEPARATE_PATHS: &[&str] = &["/proc", "/dev"];

/// All visible paths, folders before their content. Unlisted paths are not visible.
pub(super) fn entries(mut files: FileRules) -> Vec<Entry> {
    // A writable copy of this program would be executed by the node outside of any sandbox.
    if let Ok(own) = std::env::current_exe() {
        files.read_only.push(PathPattern::real(own));
    }
    for path in SYSTEM {
        let real = fs::canonicalize(path).ok();
        for path in [PathBuf::from(path)].into_iter().chain(real) {
            // A path that is already covered needs no separate entry.
            if !files.read.iter().any(|pattern| pattern.covers(&path)) {
                files.read.push(PathPattern::real(path));
            }
        }
    }
    let mut entries = Vec::new();
    visit(Path::new("/"), true, &files, &mut entries);
    entries
}

fn visit(path: &Path, is_dir: bool, files: &FileRules, entries: &mut Vec<Entry>) {
    if SEPARATE_PATHS.iter().any(|separate| path == Path::new(separate)) {
        return;
    }
    let mut add = |access| entries.push(Entry { path: path.to_owned(), access, is_dir });
    let readable = files.check(path, AccessKind::Read);
    if readable == Err(PathRefused::Denied) {
        return add(Access::Hidden);
    }
    let lists = [&files.read, &files.write, &files.read_only, &files.deny];
    let differs = lists.into_iter().flatten().any(|pattern| pattern.is_below(path));
    if !(differs && is_dir) {
        return match (files.check(path, AccessKind::Write), readable) {
            (Ok(()), _) => add(Access::Write),
            (_, Ok(())) => add(Access::Read),
            _ => {}
        };
    }
    if readable.is_ok() {
        add(Access::List);
    }
    // A folder that this user cannot read is not readable for the command either.
    let mut below: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().collect();
    below.sort_by_key(fs::DirEntry::file_name);
    for entry in below {
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                let path = entry.path();
                if files.check(&path, AccessKind::Read).is_ok() {
                    entries.push(Entry { path, access: Access::Link, is_dir: false });
                }
            }
            Ok(kind) => visit(&entry.path(), kind.is_dir(), files, entries),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
