//! The working folder: where a command starts that names no other folder, and where relative paths begin.
//!
//! The home folder cannot be that folder. Protected names such as `.ssh` and `.bashrc` are directly in it, and a sandbox can
//! open a folder for new files as a whole or not at all: it cannot leave out a single name that does not exist yet. The
//! working folder has nothing protected in it, so that it can be opened as a whole and works in the same way whatever
//! holds commands.

use std::path::{Path, PathBuf};

use super::{FileRules, PathPattern, PathRefused, Policy, Want};

/// What it is called where the policy does not say.
pub(super) const DEFAULT: &str = "~/plexus-work";

/// Every user of the machine can put files there, which commands would then find in their own folder.
const SHARED: &[&str] = &["/", "/tmp", "/var/tmp", "/dev/shm"];

/// Why there is no working folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWorkFolder {
    #[error("{} cannot be the working folder: {why}", path.display())]
    Refused { path: PathBuf, why: PathRefused },
    #[error("{} cannot be the working folder: the program of the node is in it", .0.display())]
    HasProgram(PathBuf),
    #[error("this machine has no home folder, and its policy names no working folder")]
    NoHome,
}

impl FileRules {
    /// Whether everything in this folder can be read and written.
    pub(super) fn check_work(&self, folder: &Path) -> Result<(), NoWorkFolder> {
        let refused = |why| NoWorkFolder::Refused { path: folder.to_owned(), why };
        self.check(folder, Want::Write).map_err(refused)?;
        if self.has_exceptions_below(folder) {
            return Err(refused(PathRefused::HasProtected));
        }
        // The program is read-only for commands, so nothing new could be made beside it.
        match std::env::current_exe() {
            Ok(program) if program.starts_with(folder) => Err(NoWorkFolder::HasProgram(folder.to_owned())),
            _ => Ok(()),
        }
    }
}

impl Policy {
    /// The working folder, which may not exist yet: the one that the policy names or the default one, if its rules let that
    /// be written as a whole; else the first folder of `files.write` that can be.
    pub fn work_folder(&self) -> Result<&Path, NoWorkFolder> {
        let Some(wanted) = &self.work else { return Err(NoWorkFolder::NoHome) };
        let Err(refused) = self.files.check_work(wanted) else { return Ok(wanted) };
        let others =
            self.files.write.iter().filter(|pattern| !pattern.is_pattern()).map(PathPattern::as_path);
        let mut private = others.filter(|path| !SHARED.iter().any(|shared| *path == Path::new(shared)));
        private.find(|path| self.files.check_work(path).is_ok()).ok_or(refused)
    }
}
