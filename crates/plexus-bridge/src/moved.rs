//! Servers of an agent that were moved behind the hub: removes them from the agent's file and restores them.
//!
//! Removed entries are stored in the ledger, which only its owner can read, because an entry may contain credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{EditError, Syntax, Undo};

/// A removed server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    pub name: String,
    value: Value,
    /// Its original text, if it was contiguous.
    raw: Option<String>,
}

/// Omits the entry, which may contain credentials.
impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Removes a server; none if the text does not contain it.
pub(crate) fn take_out(
    syntax: Syntax,
    text: &str,
    table: &[&str],
    name: &str,
) -> Result<Option<(String, Moved)>, EditError> {
    let path = [table, &[name]].concat();
    let Some(value) = syntax.get(text, &path)? else { return Ok(None) };
    // Any other value has what stands there now come out as it is written.
    let raw = match syntax.set(text, &path, &Value::Object(serde_json::Map::new())) {
        Ok(edited) => match edited.undo {
            Undo::Replaced { raw } => Some(raw),
            Undo::Inserted { .. } => None,
        },
        Err(_) => None,
    };
    let left = syntax.undo(text, &path, &Undo::Inserted { made: 0, hollow: None, fragment: None })?;
    Ok(Some((left, Moved { name: name.to_owned(), value, raw })))
}

/// Restores a server. A server of that name added meanwhile is kept.
pub(crate) fn put_back(
    syntax: Syntax,
    text: &str,
    table: &[&str],
    moved: &Moved,
) -> Result<String, EditError> {
    let path = [table, &[moved.name.as_str()]].concat();
    if syntax.get(text, &path)?.is_some() {
        return Ok(text.to_owned());
    }
    let with_value = syntax.set(text, &path, &moved.value)?.text;
    let Some(raw) = &moved.raw else { return Ok(with_value) };
    // With its original text, unless that would mean something else in its new place.
    let undo = Undo::Replaced { raw: raw.clone() };
    let as_written = syntax.undo(&with_value, &path, &undo);
    let is_same =
        |text: &String| syntax.get(text, &path).is_ok_and(|value| value.as_ref() == Some(&moved.value));
    Ok(as_written.ok().filter(is_same).unwrap_or(with_value))
}

#[cfg(test)]
mod tests;
