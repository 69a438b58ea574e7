//! The working folder on the disk.

use std::path::PathBuf;

use super::{FileError, Files};
use crate::policy::Want;

/// It is its user's alone.
const MODE: u32 = 0o700;

impl Files {
    /// The working folder by its real name, made if it does not exist. An existing one keeps its mode.
    pub(crate) fn work_folder(&self) -> Result<PathBuf, FileError> {
        let (folder, _) = self.make_folder_with(self.policy().work_folder()?, MODE)?;
        // A link may lead elsewhere by now.
        self.check(folder.path(), Want::Write)?;
        Ok(folder.path().to_owned())
    }
}
