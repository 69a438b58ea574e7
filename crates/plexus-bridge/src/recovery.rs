//! Recovers from a crashed process or a failed change: the file itself shows whether the change was made.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::RenameFlags;

use crate::confined_path::{ConfinedPath, FileContent};
use crate::error::BridgeError;
use crate::ledger::{Ledger, Part, Pending, Record};
use crate::replace::remove;
use crate::{block, entry};

/// Reconciles ledger and file. Obstacles are logged and do not fail later commands.
pub(crate) fn settle(ledger: &mut Ledger, pending: &Pending) {
    let now = match tidied(pending) {
        Ok(now) => now,
        Err(error) => {
            tracing::warn!(%error, "cannot tell whether a change to a file was made");
            // The possible content stays recorded, so it can be removed once the file is readable.
            if let Some(record) = &pending.record {
                let record = Record { alone: false, ..record.clone() };
                ledger.settle(&pending.connection, &pending.path, Some(&record));
            }
            return;
        }
    };
    let hash = now.as_ref().map(|now| now.hash.clone());
    if hash == pending.to {
        let made = ledger.record(&pending.path).map_or_else(Vec::new, |record| record.made.clone());
        ledger.settle(&pending.connection, &pending.path, pending.record.as_ref());
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
    let is_in = |part: &Part| {
        entry::is_current(text, part).or_else(|| block::is_current(&pending.path, text, part)) == Some(true)
    };
    if hash != pending.from
        && let Some(record) = pending.record.as_ref().filter(|record| is_in(&record.part))
    {
        let record = Record { hash: hash.unwrap_or_default(), alone: false, ..record.clone() };
        ledger.settle(&pending.connection, &pending.path, Some(&record));
    }
    drop_empty(ledger, &pending.connection);
}

/// The file, after its temporary file was removed.
fn tidied(pending: &Pending) -> Result<Option<FileContent>, BridgeError> {
    let place = ConfinedPath::new(&pending.root, &pending.below, false)?;
    let Some(folder) = place.folder(false)? else { return Ok(None) };
    let beside = OsString::from(&pending.beside);
    let (now, other) = (place.seen(&folder, &folder.name), place.seen(&folder, &beside));
    // What came out from under the name and is not what was read, an agent has written at that very moment. A new file of
    // ours that is not complete never had the name, so then the name does not hold the result.
    let came_out = pending.from.is_some() && now == pending.to;
    if came_out && other.is_some() && other != pending.from && other != pending.to {
        let flags = if now.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&folder.fd, &beside, &folder.fd, &folder.name, flags)
            .map_err(|error| BridgeError::io(&pending.path, "put back")(error.into()))?;
    }
    remove(&folder, &beside, &pending.path)?;
    place.read()
}

/// Forgets a connection without any written file.
fn drop_empty(ledger: &mut Ledger, key: &str) {
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
