//! Creates and opens the working folder.

use std::path::PathBuf;

use super::{FileError, Files};
use crate::policy::AccessKind;

/// Accessible to its user only.
const MODE: u32 = 0o700;

impl Files {
    /// The real path of the working folder, which is created if it does not exist. An existing folder keeps its mode.
    pub(crate) fn work_folder(&self) -> Result<PathBuf, FileError> {
        let (folder, _) = self.make_folder_with(self.policy().work_folder()?, MODE)?;
        // The path may be a symlink to another folder.
        self.check(folder.path(), AccessKind::Write)?;
        Ok(folder.path().to_owned())
    }
}
