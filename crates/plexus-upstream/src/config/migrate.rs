//! A `mcp_servers.json` in the data folder, as earlier programs kept it, becomes one file per server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::syntax::read_bounded;

use super::folder::free_path;
use super::import::{Applied, MAX_IMPORT_BYTES};
use super::problem::FolderError;
use super::{Folder, ImportPlan};

/// The file that is migrated when the hub starts.
pub const LEGACY_FILE: &str = "mcp_servers.json";

/// What a migration did.
#[derive(Debug)]
pub struct Migration {
    pub plan: ImportPlan,
    pub applied: Applied,
    /// Where the old file is now; none where it had to stay because files could not be written.
    pub backup: Option<PathBuf>,
}

/// Brings the servers of the old file over and sets it aside; none where there is no such file. An old file that cannot
/// be used stays where it is, and so does one whose servers could not all be written.
///
/// Killed or failed in between it is done again by the next start, which finds what has been written and leaves it.
pub fn migrate(data_dir: &Path, folder: &Folder) -> Result<Option<Migration>, FolderError> {
    let file = data_dir.join(LEGACY_FILE);
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let text = read_bounded(&file, MAX_IMPORT_BYTES).map_err(|(why, fix)| FolderError::Import {
        file: file.display().to_string(),
        why: format!("{why}; {fix}"),
    })?;
    let plan = folder.import(&file.display().to_string(), &text)?;
    let applied = folder.apply(&plan);
    if applied.incomplete {
        return Ok(Some(Migration { plan, applied, backup: None }));
    }
    let backup = free_path(data_dir, &format!("{LEGACY_FILE}.migrated-{}", folder.stamp()), "bak");
    fs::rename(&file, &backup)?;
    // It may hold what its new files hold, which only their owner can read.
    fs::set_permissions(&backup, Permissions::from_mode(0o600))?;
    Ok(Some(Migration { plan, applied, backup: Some(backup) }))
}

impl Migration {
    /// Says in the log what happened.
    pub fn log(&self) {
        let servers = self.applied.written.len();
        match &self.backup {
            Some(backup) => tracing::info!(
                servers,
                backup = %backup.display(),
                "the servers of {LEGACY_FILE} have files of their own now"
            ),
            None => tracing::error!(
                servers,
                "not all servers of {LEGACY_FILE} could be written; it stays, and the next start tries again"
            ),
        }
        for warning in &self.plan.warnings {
            tracing::warn!("{warning}");
        }
        for skipped in self.plan.skipped.iter().chain(&self.applied.failed) {
            let kept = if self.backup.is_some() { "; it is in the backup" } else { "" };
            tracing::warn!("{LEGACY_FILE}: {skipped}{kept}");
        }
    }
}
