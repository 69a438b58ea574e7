//! A view of the file system of its own, made by `bwrap`.
//!
//! What can be read is bound read-only, and over it what can be written, each thing of its own; over what is denied lies
//! something empty. A folder with exceptions in it is never bound for writing: nothing can be moved away from it, and nothing
//! of the name of an exception can be made in it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::view::{self, Access, Entry};
use super::{COMMAND, Launch, Sandbox};
use crate::policy::FileRules;

/// More things than this are not bound: `bwrap` takes no more arguments.
const MOST: usize = 2500;
/// Where sockets of a login are: through them others can be made to do something.
const TEMPORARY: &str = "/tmp";
const SOCKETS: &[&str] = &[".X11-unix", ".ICE-unix", ".XIM-unix"];
const AGENTS: &str = "ssh-";

/// Where the kernel takes orders.
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

/// What `bwrap` is told, up to the command itself.
pub(super) fn arguments(
    files: FileRules,
    network: bool,
    cwd: &Path,
    folder: Option<&Path>,
) -> io::Result<Vec<OsString>> {
    let own = std::env::current_exe()?;
    let mut words = Words::default();
    // Not where it is forbidden to root too: then the capabilities that are dropped were those of the machine.
    words.say(&[
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    words.say(&["--cap-drop", "ALL"]);
    if !network {
        words.say(&["--unshare-net"]);
    }
    let entries = view::entries(files);
    // The root first: `/proc` and `/dev` lie on it.
    let root = entries.first().filter(|entry| entry.path == Path::new("/"));
    let mut seen: Vec<&Path> = Vec::new();
    if let Some(root) = root {
        words.bind(if root.access == Access::Write { "--bind" } else { "--ro-bind" }, &root.path);
        seen.push(&root.path);
    }
    words.say(&["--proc", "/proc", "--dev", "/dev"]);
    // These are the machine's, also for a root without capabilities.
    for path in SETTINGS.iter().map(Path::new).filter(|path| path.exists()) {
        words.bind("--ro-bind", path);
    }
    for entry in entries.iter().filter(|entry| entry.path != Path::new("/")) {
        let is_seen = seen.iter().any(|above| entry.path.starts_with(above));
        // One that is gone by then is not missed: folders change while they are looked at.
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
                    words.say(&["--symlink"]);
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
    // Where it is hidden with what is around it, it is shown by now.
    if let Some(folder) = folder.filter(|folder| !words.words.iter().any(|word| word == folder)) {
        words.bind("--bind", folder);
    }
    if words.bound > MOST {
        return Err(too_many());
    }
    words.bind("--ro-bind", &own);
    words.say(&["--chdir"]);
    words.words.push(cwd.into());
    words.say(&["--"]);
    let inside = Launch { sandbox: Some(Sandbox::Inside), ..Launch::default() };
    let spec = serde_json::to_string(&inside)?;
    words.words.extend([own.into_os_string(), COMMAND.into(), spec.into()]);
    Ok(words.words)
}

fn too_many() -> io::Error {
    io::Error::other(format!(
        "the policy leaves more than {MOST} things to be shown one by one; allow folders that have no exceptions in them"
    ))
}

/// Those that are in the folder for everybody's temporary files, which can be written as a whole.
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
struct Words {
    words: Vec<OsString>,
    bound: usize,
}

impl Words {
    fn say(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }

    /// Where it is. A path begins with `/`, so none is taken for an option.
    fn bind(&mut self, how: &str, path: &Path) {
        self.words.extend([how.into(), PathBuf::from(path).into_os_string(), path.into()]);
        self.bound += 1;
    }

    /// Lays an empty folder over it, with nothing in it but the way to this one, which can be written.
    fn hide_around(&mut self, entry: &Entry, folder: &Path) {
        self.say(&["--perms", "0711", "--tmpfs"]);
        self.words.push(entry.path.clone().into());
        self.bind("--bind", folder);
        self.say(&["--remount-ro"]);
        self.words.push(entry.path.clone().into());
        self.bound += 1;
    }

    /// Lays something over it that nobody can open.
    fn hide(&mut self, entry: &Entry) {
        match entry.is_dir {
            true => {
                self.say(&["--perms", "0000", "--tmpfs"]);
                self.words.push(entry.path.clone().into());
                self.say(&["--remount-ro"]);
                self.words.push(entry.path.clone().into());
            }
            false => {
                self.say(&["--ro-bind", "/dev/null"]);
                self.words.push(entry.path.clone().into());
            }
        }
        self.bound += 1;
    }
}
