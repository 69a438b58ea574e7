//! The working folder: the default folder of commands, and the base of relative paths.
//!
//! The home folder cannot be the working folder. It directly contains protected names such as `.ssh` and `.bashrc`,
//! and a sandbox can allow new files in a folder as a whole or not at all: it cannot exclude a single name that does
//! not exist yet. The working folder contains nothing protected, so every sandbox level can open it as a whole and it
//! behaves the same under each.

use std::path::{Path, PathBuf};

use super::{AccessKind, FileRules, PathPattern, PathRefused, Policy};

/// The default working folder.
pub(super) const DEFAULT: &str = "~/plexus-work";

/// Folders in which every user of the machine can create files, which commands would then find in their own folder.
const SHARED: &[&str] = &["/", "/tmp", "/var/tmp", "/dev/shm"];

/// The reason a machine has no working folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWorkFolder {
    #[error("{} cannot be the working folder: {why}", path.display())]
    Refused { path: PathBuf, why: PathRefused },
    #[error("{} cannot be the working folder: it contains the node's program", .0.display())]
    HasProgram(PathBuf),
    #[error("this machine has no home folder, and its policy names no working folder")]
    NoHome,
}

impl FileRules {
    /// Checks that everything in this folder can be read and written.
    pub(super) fn check_work(&self, folder: &Path) -> Result<(), NoWorkFolder> {
        let refused = |why| NoWorkFolder::Refused { path: folder.to_owned(), why };
        self.check(folder, AccessKind::Write).map_err(refused)?;
        if self.has_exceptions_below(folder) {
            return Err(refused(PathRefused::HasProtected));
        }
        // The program is read-only for commands, so no new file could be created next to it.
        match std::env::current_exe() {
            Ok(program) if program.starts_with(folder) => Err(NoWorkFolder::HasProgram(folder.to_owned())),
            _ => Ok(()),
        }
    }
}

impl Policy {
    /// The working folder, which may not exist yet: the folder that the policy names, or else the default one, if it
    /// can be written as a whole; otherwise the first folder of `files.write` that can be.
    pub fn work_folder(&self) -> Result<&Path, NoWorkFolder> {
        let Some(configured) = &self.work else { return Err(NoWorkFolder::NoHome) };
        let Err(refused) = self.files.check_work(configured) else { return Ok(configured) };
        let others =
            self.files.write.iter().filter(|pattern| !pattern.is_pattern()).map(PathPattern::as_path);
        let mut private = others.filter(|path| !SHARED.iter().any(|shared| *path == Path::new(shared)));
        private.find(|path| self.files.check_work(path).is_ok()).ok_or(refused)
    }
}
