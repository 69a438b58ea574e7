//! Migrates `mcp_servers.json` in the data folder, the format of earlier versions, to one file per server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use plexus_kit::syntax::read_bounded;

use super::folder::free_path;
use super::import::{AppliedImport, MAX_IMPORT_BYTES};
use super::problem::FolderError;
use super::{Folder, ImportPlan};

/// The file that is migrated when the hub starts.
pub const LEGACY_FILE: &str = "mcp_servers.json";

/// The result of a migration.
#[derive(Debug)]
pub struct Migration {
    pub plan: ImportPlan,
    pub applied: AppliedImport,
    /// The new path of the old file; none if it had to stay because files could not be written.
    pub backup: Option<PathBuf>,
}

/// Writes one file per server of the old file and renames the old one; returns none if no such file exists.
/// An old file that cannot be parsed stays in place, and so does one whose servers could not all be written.
///
/// After a crash or an error the next start repeats the migration and leaves files that already exist.
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
    // The old file may hold the same credentials as the new files, which only their owner can read.
    fs::set_permissions(&backup, Permissions::from_mode(0o600))?;
    Ok(Some(Migration { plan, applied, backup: Some(backup) }))
}

impl Migration {
    /// Logs the result.
    pub fn log(&self) {
        let servers = self.applied.written.len();
        match &self.backup {
            Some(backup) => tracing::info!(
                servers,
                backup = %backup.display(),
                "migrated the servers of {LEGACY_FILE} to one file each"
            ),
            None => tracing::error!(
                servers,
                "some servers of {LEGACY_FILE} could not be written; the file stays, and the next start retries"
            ),
        }
        for warning in &self.plan.warnings {
            tracing::warn!("{warning}");
        }
        for skipped in self.plan.skipped.iter().chain(&self.applied.failed) {
            let suffix = if self.backup.is_some() { "; the backup still has it" } else { "" };
            tracing::warn!("{LEGACY_FILE}: {skipped}{suffix}");
        }
    }
}
