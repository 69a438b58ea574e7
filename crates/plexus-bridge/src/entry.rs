//! The entry of the hub among the servers of an agent: what a file becomes with it, and without it again.

use std::path::Path;

use serde_json::Value;

use crate::document::{Syntax, Undo};
use crate::error::BridgeError;
use crate::ledger::Part;
use crate::moved::{Moved, put_back, take_out};

/// What to do where there is an entry of our name that is not ours, or not as we left it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Leave it.
    #[default]
    Skip,
    /// Set what is ours in it, and leave the rest of it.
    Merge,
    /// Put ours in its place.
    Replace,
}

/// What an entry is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) syntax: Syntax,
    pub(crate) keys: Vec<String>,
    pub(crate) value: Value,
    /// Servers beside it that go.
    pub(crate) moved: Vec<String>,
}

/// The text with the entry and without the servers that are moved, and what takes all of it back.
pub(crate) fn connect(
    path: &Path,
    text: &str,
    wanted: &Wanted,
    known: Option<&Part>,
    policy: Policy,
) -> Result<(String, Part), BridgeError> {
    let (mut text, mut part) = connect_alone(path, text, wanted, known, policy)?;
    let Part::Entry { syntax, keys, moved, .. } = &mut part else { return Ok((text, part)) };
    let table: Vec<&str> = keys.iter().take(keys.len() - 1).map(String::as_str).collect();
    for name in &wanted.moved {
        if let Some((left, taken)) =
            take_out(*syntax, &text, &table, name).map_err(BridgeError::edit(path))?
        {
            text = left;
            // What came back in between and goes once more is what comes back the next time.
            moved.retain(|known| known.name != *name);
            moved.push(taken);
        }
    }
    Ok((text, part))
}

/// The text with the entry, and what takes it out again.
fn connect_alone(
    path: &Path,
    text: &str,
    wanted: &Wanted,
    known: Option<&Part>,
    policy: Policy,
) -> Result<(String, Part), BridgeError> {
    let Wanted { syntax, keys, value, .. } = wanted;
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let edit = BridgeError::edit(path);
    let there = syntax.get(text, &names).map_err(&edit)?;
    let moved: Vec<Moved> = match known {
        Some(Part::Entry { moved, .. }) => moved.clone(),
        _ => Vec::new(),
    };
    let known = match known {
        Some(Part::Entry { keys: at, ours, undo, .. }) if at == keys => Some((ours, undo)),
        _ => None,
    };
    let part = |undo: &Undo| Part::Entry {
        syntax: *syntax,
        keys: keys.clone(),
        ours: value.clone(),
        undo: undo.clone(),
        moved: moved.clone(),
    };
    let Some(there) = there else {
        let edited = syntax.set(text, &names, value).map_err(&edit)?;
        return Ok((edited.text, part(&edited.undo)));
    };
    let name = names.last().copied().unwrap_or_default();
    if let Some((ours, undo)) = known {
        if !holds(&there, ours) && policy == Policy::Skip {
            return Err(changed(path, name));
        }
        // What was added to it since stays, such as which tools need no question any more.
        let new = over(there.clone(), value);
        if new == there {
            return Ok((text.to_owned(), part(undo)));
        }
        let edited = syntax.set(text, &names, &new).map_err(&edit)?;
        return Ok((edited.text, part(undo)));
    }
    if there == *value {
        // Exactly ours, from a copy or from an agent that wrote back what it had read.
        let undo = Undo::Inserted { made: 0, hollow: None, fragment: None };
        return Ok((text.to_owned(), part(&undo)));
    }
    let new = match policy {
        Policy::Skip => {
            return Err(BridgeError::conflict(
                path,
                format!("has an entry \"{name}\" that was not made by this command"),
                "--policy replace puts ours in its place, --policy merge sets what is ours in it",
            ));
        }
        Policy::Merge => over(there, value),
        Policy::Replace => value.clone(),
    };
    let edited = syntax.set(text, &names, &new).map_err(&edit)?;
    Ok((edited.text, part(&edited.undo)))
}

/// The text without the entry.
pub(crate) fn disconnect(
    path: &Path,
    text: &str,
    part: &Part,
    policy: Policy,
) -> Result<String, BridgeError> {
    let Part::Entry { syntax, keys, ours, undo, moved } = part else { return Ok(text.to_owned()) };
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let edit = BridgeError::edit(path);
    let mut text = match syntax.get(text, &names).map_err(&edit)? {
        None => text.to_owned(),
        Some(there) if !holds(&there, ours) && policy != Policy::Replace => {
            return Err(changed(path, names.last().copied().unwrap_or_default()));
        }
        Some(_) => syntax.undo(text, &names, undo).map_err(&edit)?,
    };
    let table = &names[..names.len() - 1];
    for server in moved {
        text = put_back(*syntax, &text, table, server).map_err(&edit)?;
    }
    Ok(text)
}

/// Whether the entry is there as we left it.
pub(crate) fn is_current(text: &str, part: &Part) -> Option<bool> {
    let Part::Entry { syntax, keys, ours, .. } = part else { return None };
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    syntax.get(text, &names).ok()?.map(|there| holds(&there, ours))
}

/// Our entry as this text has it; none where it has none.
pub(crate) fn in_text(text: &str, part: &Part) -> Option<Part> {
    let Part::Entry { syntax, keys, undo, moved, .. } = part else { return None };
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let there = syntax.get(text, &names).ok()??;
    // Before it was connected, an entry of this name was somebody else's.
    let is_former = matches!(undo, Undo::Replaced { .. }) && is_current(text, part) != Some(true);
    (!is_former).then(|| Part::Entry {
        syntax: *syntax,
        keys: keys.clone(),
        ours: there,
        undo: undo.clone(),
        moved: moved.clone(),
    })
}

fn changed(path: &Path, name: &str) -> BridgeError {
    BridgeError::conflict(
        path,
        format!("has an entry \"{name}\" that was changed since it was written"),
        "--policy replace gives up that change",
    )
}

/// Whether everything of ours is in it; more may be.
fn holds(there: &Value, ours: &Value) -> bool {
    match (there, ours) {
        (Value::Object(there), Value::Object(ours)) => {
            ours.iter().all(|(key, value)| there.get(key).is_some_and(|there| holds(there, value)))
        }
        (there, ours) => there == ours,
    }
}

/// The one over the other.
fn over(mut there: Value, ours: &Value) -> Value {
    match (&mut there, ours) {
        (Value::Object(fields), Value::Object(ours)) => {
            for (key, value) in ours {
                fields.insert(key.clone(), value.clone());
            }
            there
        }
        _ => ours.clone(),
    }
}
