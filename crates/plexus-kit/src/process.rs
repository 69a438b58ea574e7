//! Child processes: resolves commands as a shell does, and ends process groups, even if this process is
//! killed.

mod guardian;
mod stat;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, kill_process_group};

pub use guardian::Guardian;
pub use rustix::process::Signal;
pub use stat::{Stat, pids};

/// A process group that is killed on drop.
///
/// The kernel does not reuse a group id while a process is in the group. An empty group makes `kill` fail; it
/// could hit another group only after all other ids had been used.
#[derive(Debug)]
pub struct Group(u32);

impl Group {
    /// The group led by this process.
    #[must_use]
    pub fn of(leader: u32) -> Self {
        Self(leader)
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.0.cast_signed()) {
            // Fails if the group is empty, which is fine.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The program that a shell would run for this command.
#[must_use]
pub fn find_program(command: &str, path: &str) -> Option<PathBuf> {
    let runs = |file: &Path| {
        fs_err::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        let file = std::path::absolute(command).ok()?;
        return runs(&file).then_some(file);
    }
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(command)).find(|file| runs(file))
}
