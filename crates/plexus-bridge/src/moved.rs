//! Servers of an agent that were moved behind the hub: taken out of the agent's file, and put back into it.
//!
//! What was taken out is kept in the ledger, which only its owner reads, since an entry may hold credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{EditError, Syntax, Undo};

/// A server that was taken out.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    pub name: String,
    value: Value,
    /// As it was written, where that is one piece of the text.
    raw: Option<String>,
}

/// Without what the entry holds.
impl fmt::Debug for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The text without a server; none where it has no such server.
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

/// The text with a server again. One that somebody has put there meanwhile stays as it is.
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
    // As it was written, unless it would mean something else in its new place.
    let undo = Undo::Replaced { raw: raw.clone() };
    let as_written = syntax.undo(&with_value, &path, &undo);
    let is_same =
        |text: &String| syntax.get(text, &path).is_ok_and(|value| value.as_ref() == Some(&moved.value));
    Ok(as_written.ok().filter(is_same).unwrap_or(with_value))
}

#[cfg(test)]
mod tests;
