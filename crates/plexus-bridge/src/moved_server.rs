//! Servers of an agent that were moved behind the hub: removes them from the agent's file and restores them.
//!
//! Removed entries are stored in the ledger, which only its owner can read, because an entry may contain credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{EditError, Syntax, Undo};

/// A removed server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedServer {
    pub name: String,
    value: Value,
    /// Its original text, if it was contiguous.
    raw: Option<String>,
}

/// Omits the entry, which may contain credentials.
impl fmt::Debug for MovedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovedServer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Removes a server; none if the text does not contain it.
pub(crate) fn remove_server(
    syntax: Syntax,
    text: &str,
    table: &[&str],
    name: &str,
) -> Result<Option<(String, MovedServer)>, EditError> {
    let path = [table, &[name]].concat();
    let Some(value) = syntax.get(text, &path)? else { return Ok(None) };
    // Setting any other value returns the original text of the current one.
    let raw = match syntax.set(text, &path, &Value::Object(serde_json::Map::new())) {
        Ok(edited) => match edited.undo {
            Undo::Replaced { raw } => Some(raw),
            Undo::Inserted { .. } => None,
        },
        Err(_) => None,
    };
    let remaining = syntax.undo(text, &path, &Undo::Inserted { made: 0, hollow: None, fragment: None })?;
    Ok(Some((remaining, MovedServer { name: name.to_owned(), value, raw })))
}

/// Restores a server. A server of that name added meanwhile is kept.
pub(crate) fn restore_server(
    syntax: Syntax,
    text: &str,
    table: &[&str],
    moved: &MovedServer,
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
