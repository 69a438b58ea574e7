//! What a process that died has left: the file itself says whether its last change was made.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::RenameFlags;

use crate::error::BridgeError;
use crate::ledger::{Ledger, Part, Pending, Record};
use crate::place::Place;
use crate::replace::remove;
use crate::{block, entry};

/// Brings ledger and file together again.
pub(crate) fn settle(ledger: &mut Ledger, pending: &Pending) -> Result<(), BridgeError> {
    let place = Place::new(&pending.root, &pending.below, false)?;
    let beside = OsString::from(&pending.beside);
    let folder = place.folder(false)?;
    let mut now = place.read()?;
    if let Some(folder) = &folder {
        let other = place.read_in(folder, &beside)?.map(|other| other.hash);
        let known = [&pending.from, &pending.to];
        let is_theirs = other.is_some() && !known.contains(&&other);
        // What an agent wrote at that very moment is the newest there is.
        if is_theirs && (now.is_none() || now.as_ref().map(|now| &now.hash) == pending.to.as_ref()) {
            let flags = if now.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
            rustix::fs::renameat_with(&folder.fd, &beside, &folder.fd, &folder.name, flags)
                .map_err(|error| BridgeError::io(&pending.path, "put back")(error.into()))?;
            now = place.read()?;
        } else if pending.to.is_none() && now.is_none() && other == pending.from {
            // It was taken away, and is to be gone.
        }
        remove(folder, &beside, &pending.path)?;
    }
    let hash = now.as_ref().map(|now| now.hash.clone());
    if hash == pending.from && hash != pending.to {
        if now.is_none() {
            remove_folders(pending.record.as_ref().map_or(&[], |record| &record.made));
        }
        drop_empty(ledger, &pending.connection);
        return Ok(());
    }
    if hash == pending.to {
        let made = ledger.record(&pending.path).map_or_else(Vec::new, |record| record.made.clone());
        ledger.settle(&pending.connection, &pending.path, pending.record.as_ref());
        if now.is_none() {
            remove_folders(&made);
        }
        return Ok(());
    }
    // Somebody has written it since: what is ours is in it, or it is not.
    let text = now.as_ref().map_or("", |now| now.text.as_str());
    let is_in = |part: &Part| {
        entry::is_current(text, part).or_else(|| block::is_current(&pending.path, text, part)) == Some(true)
    };
    if let Some(record) = pending.record.as_ref().filter(|record| is_in(&record.part)) {
        let record = Record { hash: hash.unwrap_or_default(), ..record.clone() };
        ledger.settle(&pending.connection, &pending.path, Some(&record));
    }
    drop_empty(ledger, &pending.connection);
    Ok(())
}

/// A connection of which nothing was written is none.
fn drop_empty(ledger: &mut Ledger, key: &str) {
    if ledger.connections.get(key).is_some_and(|connection| connection.files.is_empty()) {
        ledger.connections.remove(key);
    }
}

/// Removes folders that were made, as far as nothing is in them.
pub(crate) fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // It fails where somebody uses it, as it should.
        let _ = std::fs::remove_dir(folder);
    }
}
