//! Recovers from a crashed process or a failed change: the file itself shows whether the change was made.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::RenameFlags;

use crate::confined_path::{ConfinedPath, FileContent};
use crate::error::BridgeError;
use crate::ledger::{FileRecord, Ledger, ManagedPart, Pending};
use crate::replace::remove_file;
use crate::{block, entry};

/// Reconciles ledger and file. Obstacles are logged and do not fail later commands.
pub(crate) fn recover(ledger: &mut Ledger, pending: &Pending) {
    let now = match clean_up(pending) {
        Ok(now) => now,
        Err(error) => {
            tracing::warn!(%error, "cannot tell whether a change to a file was made");
            // The possible content stays recorded, so it can be removed once the file is readable.
            if let Some(record) = &pending.record {
                let record = FileRecord { alone: false, ..record.clone() };
                ledger.set_record(&pending.connection, &pending.path, Some(&record));
            }
            return;
        }
    };
    let hash = now.as_ref().map(|now| now.hash.clone());
    if hash == pending.to {
        let made = ledger.record(&pending.path).map_or_else(Vec::new, |record| record.made.clone());
        ledger.set_record(&pending.connection, &pending.path, pending.record.as_ref());
        if now.is_none() {
            remove_folders(&made);
        }
        return;
    }
    if now.is_none() {
        remove_folders(pending.record.as_ref().map_or(&[], |record| &record.made));
    }
    // Another program may have written it since: check whether our content is in it.
    let text = now.as_ref().map_or("", |now| now.text.as_str());
    let contains_part = |part: &ManagedPart| {
        entry::is_current(text, part).or_else(|| block::is_current(&pending.path, text, part)) == Some(true)
    };
    if hash != pending.from
        && let Some(record) = pending.record.as_ref().filter(|record| contains_part(&record.part))
    {
        let record = FileRecord { hash: hash.unwrap_or_default(), alone: false, ..record.clone() };
        ledger.set_record(&pending.connection, &pending.path, Some(&record));
    }
    forget_empty_connection(ledger, &pending.connection);
}

/// The file, after its temporary file was removed.
fn clean_up(pending: &Pending) -> Result<Option<FileContent>, BridgeError> {
    let location = ConfinedPath::new(&pending.root, &pending.below, false)?;
    let Some(folder) = location.folder(false)? else { return Ok(None) };
    let beside = OsString::from(&pending.beside);
    let (now, other) = (location.fingerprint(&folder, &folder.name), location.fingerprint(&folder, &beside));
    // A file that was exchanged out of the name and differs from the one read was written by an agent at that moment.
    // An incomplete new file of ours never had the name, so in that case the name does not have the resulting
    // content.
    let original_displaced = pending.from.is_some() && now == pending.to;
    if original_displaced && other.is_some() && other != pending.from && other != pending.to {
        let flags = if now.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&folder.fd, &beside, &folder.fd, &folder.name, flags)
            .map_err(|error| BridgeError::io(&pending.path, "put back")(error.into()))?;
    }
    remove_file(&folder, &beside, &pending.path)?;
    location.read()
}

/// Forgets a connection without any written file.
fn forget_empty_connection(ledger: &mut Ledger, key: &str) {
    if ledger.connections.get(key).is_some_and(|connection| connection.files.is_empty()) {
        ledger.connections.remove(key);
    }
}

/// Removes created folders that are empty.
pub(crate) fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // Fails for a folder in use, as intended.
        let _ = std::fs::remove_dir(folder);
    }
}
