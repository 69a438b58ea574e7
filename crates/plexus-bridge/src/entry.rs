//! The hub's entry among the servers of an agent: inserts it into a file and removes it.

use std::path::Path;

use serde_json::Value;

use crate::document::{Syntax, Undo};
use crate::error::BridgeError;
use crate::ledger::ManagedPart;
use crate::moved_server::{MovedServer, remove_server, restore_server};

/// How to handle an entry with our name that has another origin or was changed since our last write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Leave it unchanged.
    #[default]
    Skip,
    /// Set our fields and keep the others.
    Merge,
    /// Replace it.
    Replace,
}

/// The desired entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredEntry {
    pub(crate) syntax: Syntax,
    pub(crate) keys: Vec<String>,
    pub(crate) value: Value,
    /// Other servers to remove.
    pub(crate) moved: Vec<String>,
}

/// Inserts the entry and removes the moved servers; returns the text and how to undo both.
pub(crate) fn insert_entry(
    path: &Path,
    text: &str,
    desired: &DesiredEntry,
    recorded: Option<&ManagedPart>,
    policy: ConflictPolicy,
) -> Result<(String, ManagedPart), BridgeError> {
    let (mut text, mut part) = set_entry(path, text, desired, recorded, policy)?;
    let ManagedPart::Entry { syntax, keys, moved, .. } = &mut part else { return Ok((text, part)) };
    let table: Vec<&str> = keys.iter().take(keys.len() - 1).map(String::as_str).collect();
    for name in &desired.moved {
        if let Some((remaining, removed)) =
            remove_server(*syntax, &text, &table, name).map_err(BridgeError::edit(path))?
        {
            text = remaining;
            // A server that was restored and is removed again is the one to restore the next time.
            moved.retain(|recorded| recorded.name != *name);
            moved.push(removed);
        }
    }
    Ok((text, part))
}

/// Inserts the entry; returns the text and how to undo it.
fn set_entry(
    path: &Path,
    text: &str,
    desired: &DesiredEntry,
    recorded: Option<&ManagedPart>,
    policy: ConflictPolicy,
) -> Result<(String, ManagedPart), BridgeError> {
    let DesiredEntry { syntax, keys, value, .. } = desired;
    let key_path: Vec<&str> = keys.iter().map(String::as_str).collect();
    let edit = BridgeError::edit(path);
    let existing = syntax.get(text, &key_path).map_err(&edit)?;
    let moved: Vec<MovedServer> = match recorded {
        Some(ManagedPart::Entry { moved, .. }) => moved.clone(),
        _ => Vec::new(),
    };
    let recorded = match recorded {
        Some(ManagedPart::Entry { keys: at, ours, undo, .. }) if at == keys => Some((ours, undo)),
        _ => None,
    };
    let part = |undo: &Undo| ManagedPart::Entry {
        syntax: *syntax,
        keys: keys.clone(),
        ours: value.clone(),
        undo: undo.clone(),
        moved: moved.clone(),
    };
    let Some(existing) = existing else {
        let edited = syntax.set(text, &key_path, value).map_err(&edit)?;
        return Ok((edited.text, part(&edited.undo)));
    };
    let name = key_path.last().copied().unwrap_or_default();
    if let Some((ours, undo)) = recorded {
        if !contains_fields(&existing, ours) && policy == ConflictPolicy::Skip {
            return Err(entry_changed_error(path, name));
        }
        // Fields added since stay, such as the tools that need no confirmation.
        let new = merge_fields(existing.clone(), value);
        if new == existing {
            return Ok((text.to_owned(), part(undo)));
        }
        let edited = syntax.set(text, &key_path, &new).map_err(&edit)?;
        return Ok((edited.text, part(undo)));
    }
    if existing == *value {
        // Identical to ours: from a copy, or written back by an agent that had read it.
        let undo = Undo::Inserted { made: 0, hollow: None, fragment: None };
        return Ok((text.to_owned(), part(&undo)));
    }
    let new = match policy {
        ConflictPolicy::Skip => {
            return Err(BridgeError::conflict(
                path,
                format!("has an entry \"{name}\" that this command did not create"),
                "--policy replace replaces it, --policy merge sets only the fields of Plexus",
            ));
        }
        ConflictPolicy::Merge => merge_fields(existing, value),
        ConflictPolicy::Replace => value.clone(),
    };
    let edited = syntax.set(text, &key_path, &new).map_err(&edit)?;
    Ok((edited.text, part(&edited.undo)))
}

/// Removes the entry.
pub(crate) fn remove_entry(
    path: &Path,
    text: &str,
    part: &ManagedPart,
    policy: ConflictPolicy,
) -> Result<String, BridgeError> {
    let ManagedPart::Entry { syntax, keys, ours, undo, moved } = part else { return Ok(text.to_owned()) };
    let key_path: Vec<&str> = keys.iter().map(String::as_str).collect();
    let edit = BridgeError::edit(path);
    let mut text = match syntax.get(text, &key_path).map_err(&edit)? {
        None => text.to_owned(),
        Some(existing) if !contains_fields(&existing, ours) && policy != ConflictPolicy::Replace => {
            return Err(entry_changed_error(path, key_path.last().copied().unwrap_or_default()));
        }
        Some(_) => syntax.undo(text, &key_path, undo).map_err(&edit)?,
    };
    let table = &key_path[..key_path.len() - 1];
    for server in moved {
        text = restore_server(*syntax, &text, table, server).map_err(&edit)?;
    }
    Ok(text)
}

/// Checks that the entry is unchanged since our last write.
pub(crate) fn is_current(text: &str, part: &ManagedPart) -> Option<bool> {
    let ManagedPart::Entry { syntax, keys, ours, .. } = part else { return None };
    let key_path: Vec<&str> = keys.iter().map(String::as_str).collect();
    syntax.get(text, &key_path).ok()?.map(|existing| contains_fields(&existing, ours))
}

/// Our entry in this text, if any.
pub(crate) fn entry_in_text(text: &str, part: &ManagedPart) -> Option<ManagedPart> {
    let ManagedPart::Entry { syntax, keys, undo, moved, .. } = part else { return None };
    let key_path: Vec<&str> = keys.iter().map(String::as_str).collect();
    let existing = syntax.get(text, &key_path).ok()??;
    // Before the agent was connected, an entry of this name had another origin.
    let is_former = matches!(undo, Undo::Replaced { .. }) && is_current(text, part) != Some(true);
    (!is_former).then(|| ManagedPart::Entry {
        syntax: *syntax,
        keys: keys.clone(),
        ours: existing,
        undo: undo.clone(),
        moved: moved.clone(),
    })
}

fn entry_changed_error(path: &Path, name: &str) -> BridgeError {
    BridgeError::conflict(
        path,
        format!("has an entry \"{name}\" that was changed since it was written"),
        "--policy replace discards that change",
    )
}

/// Whether it contains all our fields; it may contain others.
fn contains_fields(existing: &Value, ours: &Value) -> bool {
    match (existing, ours) {
        (Value::Object(existing), Value::Object(ours)) => ours
            .iter()
            .all(|(key, value)| existing.get(key).is_some_and(|existing| contains_fields(existing, value))),
        (existing, ours) => existing == ours,
    }
}

/// Merges our fields into an existing entry.
fn merge_fields(mut existing: Value, ours: &Value) -> Value {
    match (&mut existing, ours) {
        (Value::Object(fields), Value::Object(ours)) => {
            for (key, value) in ours {
                fields.insert(key.clone(), value.clone());
            }
            existing
        }
        _ => ours.clone(),
    }
}
