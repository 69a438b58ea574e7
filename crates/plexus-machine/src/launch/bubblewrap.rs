//! A separate view of the file system, set up by `bwrap`.
//!
//! Readable paths are bound read-only, writable paths are bound over them one by one, and denied paths are covered by
//! something empty. A folder that contains exceptions is never bound for writing, so nothing can be moved out of it,
//! and nothing with the name of an exception can be created in it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::view::{self, Access, Entry};
use super::{COMMAND, Launch, Sandbox};
use crate::policy::FileRules;

/// The maximum number of binds, because `bwrap` limits its arguments.
const MAX_BINDS: usize = 2500;
/// The folder of login sockets, which give access to other processes.
const TEMPORARY: &str = "/tmp";
const SOCKETS: &[&str] = &[".X11-unix", ".ICE-unix", ".XIM-unix"];
const AGENTS: &str = "ssh-";

/// Interfaces for changing kernel settings.
const SETTINGS: &[&str] = &[
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/mtrr",
];

/// The arguments of `bwrap`, up to the command itself.
pub(super) fn arguments(
    files: FileRules,
    network: bool,
    cwd: &Path,
    folder: Option<&Path>,
) -> io::Result<Vec<OsString>> {
    let own = std::env::current_exe()?;
    let mut words = ArgumentList::default();
    // If a user namespace is not permitted even for root, the dropped capabilities are those of the machine.
    words.push(&[
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    words.push(&["--cap-drop", "ALL"]);
    if !network {
        words.push(&["--unshare-net"]);
    }
    let entries = view::entries(files);
    // The root first, because `/proc` and `/dev` are mounted on it.
    let root = entries.first().filter(|entry| entry.path == Path::new("/"));
    let mut seen: Vec<&Path> = Vec::new();
    if let Some(root) = root {
        words.bind(if root.access == Access::Write { "--bind" } else { "--ro-bind" }, &root.path);
        seen.push(&root.path);
    }
    words.push(&["--proc", "/proc", "--dev", "/dev"]);
    // They belong to the machine, and root could write them even without capabilities.
    for path in SETTINGS.iter().map(Path::new).filter(|path| path.exists()) {
        words.bind("--ro-bind", path);
    }
    for entry in entries.iter().filter(|entry| entry.path != Path::new("/")) {
        let is_seen = seen.iter().any(|above| entry.path.starts_with(above));
        // `-try`: paths may disappear between listing and binding.
        match entry.access {
            Access::Write => words.bind("--bind-try", &entry.path),
            Access::List | Access::Read if !is_seen => {
                words.bind("--ro-bind-try", &entry.path);
                if entry.access == Access::List {
                    seen.push(&entry.path);
                }
            }
            Access::Hidden if is_seen => match folder.filter(|folder| folder.starts_with(&entry.path)) {
                Some(folder) => words.hide_around(entry, folder),
                None => words.hide(entry),
            },
            Access::Link if !is_seen => {
                if let Ok(target) = fs::read_link(&entry.path) {
                    words.push(&["--symlink"]);
                    words.words.extend([target.into_os_string(), entry.path.clone().into_os_string()]);
                    words.bound += 1;
                }
            }
            _ => {}
        }
        if entry.access == Access::Write && entry.path == Path::new(TEMPORARY) {
            sockets().iter().for_each(|socket| words.hide(socket));
        }
    }
    // If it is below a hidden folder, it was already bound above.
    if let Some(folder) = folder.filter(|folder| !words.words.iter().any(|word| word == folder)) {
        words.bind("--bind", folder);
    }
    if words.bound > MAX_BINDS {
        return Err(too_many());
    }
    words.bind("--ro-bind", &own);
    words.push(&["--chdir"]);
    words.words.push(cwd.into());
    words.push(&["--"]);
    let inside = Launch { sandbox: Some(Sandbox::Inside), ..Launch::default() };
    let spec = serde_json::to_string(&inside)?;
    words.words.extend([own.into_os_string(), COMMAND.into(), spec.into()]);
    Ok(words.words)
}

fn too_many() -> io::Error {
    io::Error::other(format!(
        "the policy requires more than {MAX_BINDS} separate mounts; allow folders that contain no exceptions"
    ))
}

/// The socket folders in `/tmp`, which is writable as a whole.
fn sockets() -> Vec<Entry> {
    let all = fs::read_dir(TEMPORARY).into_iter().flatten().flatten();
    let theirs = all.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && (SOCKETS.contains(&name.as_ref()) || name.starts_with(AGENTS))
    });
    theirs.map(|entry| Entry { path: entry.path(), access: Access::Hidden, is_dir: true }).collect()
}

#[derive(Default)]
struct ArgumentList {
    words: Vec<OsString>,
    bound: usize,
}

impl ArgumentList {
    fn push(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }

    /// Binds a path to itself. A path begins with `/`, so it is never taken for an option.
    fn bind(&mut self, how: &str, path: &Path) {
        self.words.extend([how.into(), PathBuf::from(path).into_os_string(), path.into()]);
        self.bound += 1;
    }

    /// Covers a folder with an empty one that contains only the path to `folder`, which is writable.
    fn hide_around(&mut self, entry: &Entry, folder: &Path) {
        self.push(&["--perms", "0711", "--tmpfs"]);
        self.words.push(entry.path.clone().into());
        self.bind("--bind", folder);
        self.push(&["--remount-ro"]);
        self.words.push(entry.path.clone().into());
        self.bound += 1;
    }

    /// Covers a path with something that cannot be opened.
    fn hide(&mut self, entry: &Entry) {
        match entry.is_dir {
            true => {
                self.push(&["--perms", "0000", "--tmpfs"]);
                self.words.push(entry.path.clone().into());
                self.push(&["--remount-ro"]);
                self.words.push(entry.path.clone().into());
            }
            false => {
                self.push(&["--ro-bind", "/dev/null"]);
                self.words.push(entry.path.clone().into());
            }
        }
        self.bound += 1;
    }
}
