//! The file system as a policy lets it be seen: one walk that both kinds of sandbox are made from.
//!
//! Neither can take something away from within what it has given. So a folder is given as a whole only where nothing in it
//! is an exception, whether that exists or not; of any other, each thing in it is looked at in turn, and nothing can be made
//! directly in it: what has the name of an exception would be one.

use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::policy::{FileRules, PathPattern, PathRefused, Want};

/// What can be done with a file, or a folder and all that is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Hidden,
    /// A folder with exceptions in it: the names in it can be seen. What is in it is said of each.
    List,
    Read,
    Write,
    /// A link, which is followed to what is looked at in its own place.
    Link,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) is_dir: bool,
}

/// What no program starts without: programs, libraries, and how names are looked up. Readable whatever `files.read` says,
/// unless it is denied.
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

/// Given in another way: what is in them is made by the kernel, and is not files.
const APART: &[&str] = &["/proc", "/dev"];

/// All that can be seen, folders before what is in them. Where nothing is said of something, it cannot be seen.
pub(super) fn entries(mut files: FileRules) -> Vec<Entry> {
    // Who could change this program would be run by the node outside of any sandbox.
    if let Ok(own) = std::env::current_exe() {
        files.read_only.push(PathPattern::real(own));
    }
    for path in SYSTEM {
        let real = fs::canonicalize(path).ok();
        for path in [PathBuf::from(path)].into_iter().chain(real) {
            // What can be read as a part of more need not be looked at by itself.
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
    if APART.iter().any(|apart| path == Path::new(apart)) {
        return;
    }
    let mut add = |access| entries.push(Entry { path: path.to_owned(), access, is_dir });
    let readable = files.check(path, Want::Read);
    if readable == Err(PathRefused::Denied) {
        return add(Access::Hidden);
    }
    let lists = [&files.read, &files.write, &files.read_only, &files.deny];
    let differs = lists.into_iter().flatten().any(|pattern| pattern.is_below(path));
    if !(differs && is_dir) {
        return match (files.check(path, Want::Write), readable) {
            (Ok(()), _) => add(Access::Write),
            (_, Ok(())) => add(Access::Read),
            _ => {}
        };
    }
    if readable.is_ok() {
        add(Access::List);
    }
    // One that this user cannot read has nothing in it for the command either.
    let mut below: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().collect();
    below.sort_by_key(fs::DirEntry::file_name);
    for entry in below {
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                let path = entry.path();
                if files.check(&path, Want::Read).is_ok() {
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
