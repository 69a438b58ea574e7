//! Inserts a value at one path of a third-party configuration file and removes it again; everything else stays byte
//! for byte.
//!
//! - An edit inserts or removes a few bytes. The rest of the text is not rewritten: comments, order, line ends, a
//!   byte order mark and unknown content stay.
//! - After each edit both texts are parsed and compared: they must differ at the given path only, or the edit is
//!   refused. So an unforeseen notation leads to a refusal, never to damage.
//! - Removing an inserted value restores the original bytes, even if the rest was changed in between.

mod json;
mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest file that is edited. Claude Code stores a history in its settings file.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Deepest accepted nesting.
const MAX_DEPTH: usize = 128;

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    Toml,
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    Yaml,
}

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not valid in its syntax.
    #[error("{0}")]
    Invalid(String),
    /// It is valid but cannot be edited safely.
    #[error("{0}")]
    Unsupported(String),
}

impl EditError {
    fn unsupported(text: impl Into<String>) -> Self {
        Self::Unsupported(text.into())
    }
}

/// How to undo an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    Inserted {
        /// The number of enclosing objects that were created with it.
        made: usize,
        /// The text between the braces of an empty object, or of an empty file.
        hollow: Option<String>,
        /// The inserted text, if it is contiguous.
        fragment: Option<String>,
    },
    /// The previous text.
    Replaced { raw: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    pub undo: Undo,
}

impl Syntax {
    /// Parses the text.
    pub fn value(self, text: &str) -> Result<Value, EditError> {
        let (_, text) = split_byte_order_mark(text);
        self.parsed(text)
    }

    /// The value at a path.
    pub fn get(self, text: &str, path: &[&str]) -> Result<Option<Value>, EditError> {
        let mut value = &self.value(text)?;
        for key in path {
            match value.get(key) {
                Some(inner) => value = inner,
                None => return Ok(None),
            }
        }
        Ok(Some(value.clone()))
    }

    /// Sets the value at a path: replaces the existing value or inserts a new one.
    pub fn set(self, text: &str, path: &[&str], value: &Value) -> Result<Edited, EditError> {
        let (mark, text) = split_byte_order_mark(text);
        let before = self.parsed(text)?;
        let mut edited = match self {
            Self::Toml => toml::set(text, path, value)?,
            Self::Json | Self::Jsonc => json::set(text, path, value, self == Self::Jsonc)?,
            Self::Yaml => yaml::set(text, path, value)?,
        };
        let after = self.parsed(&edited.text).map_err(|_| unsafe_edit())?;
        if !differ_only_at(path, &before, &after) || value_at(&after, path) != Some(value) {
            return Err(unsafe_edit());
        }
        edited.text.insert_str(0, mark);
        Ok(edited)
    }

    /// Undoes [`Syntax::set`].
    pub fn undo(self, text: &str, path: &[&str], undo: &Undo) -> Result<String, EditError> {
        let (mark, text) = split_byte_order_mark(text);
        let before = self.parsed(text)?;
        let raw = match undo {
            Undo::Replaced { raw } => Some(raw),
            Undo::Inserted { .. } => None,
        };
        let after = match (value_at(&before, path), self) {
            // Another program has already removed it.
            (None, _) if raw.is_none() => text.to_owned(),
            (_, Self::Toml) => toml::undo(text, path, undo)?,
            (_, Self::Json | Self::Jsonc) => json::undo(text, path, undo, self == Self::Jsonc)?,
            (_, Self::Yaml) => yaml::undo(text, path, undo)?,
        };
        let value = self.parsed(&after).map_err(|_| unsafe_edit())?;
        if !differ_only_at(path, &before, &value) || (raw.is_none() && value_at(&value, path).is_some()) {
            return Err(unsafe_edit());
        }
        Ok(format!("{mark}{after}"))
    }

    fn parsed(self, text: &str) -> Result<Value, EditError> {
        if text.len() > MAX_FILE_BYTES {
            let message = format!("is larger than {} MiB, the limit for edits", MAX_FILE_BYTES >> 20);
            return Err(EditError::Unsupported(message));
        }
        let value = match self {
            Self::Toml => toml::value(text)?,
            Self::Json | Self::Jsonc => json::value(text, self == Self::Jsonc)?,
            Self::Yaml => yaml::value(text)?,
        };
        match value {
            Value::Object(_) => Ok(value),
            Value::Null => Ok(Value::Object(Map::new())),
            _ => Err(EditError::unsupported("does not contain an object at the top level")),
        }
    }
}

fn unsafe_edit() -> EditError {
    EditError::unsupported("is written in a way that cannot be edited safely; nothing was changed")
}

/// Splits off the byte order mark, if any.
fn split_byte_order_mark(text: &str) -> (&str, &str) {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    text.split_at(mark)
}

fn value_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Whether two values are equal except at `path` and for enclosing objects without other content.
fn differ_only_at(path: &[&str], one: &Value, other: &Value) -> bool {
    without_path(path, one.clone()) == without_path(path, other.clone())
}

fn without_path(path: &[&str], mut value: Value) -> Value {
    fn remove_path(value: &mut Value, path: &[&str]) {
        let (Some(object), Some((key, inner))) = (value.as_object_mut(), path.split_first()) else { return };
        let Some(child) = object.get_mut(*key) else { return };
        if !inner.is_empty() {
            remove_path(child, inner);
        }
        if inner.is_empty() || child.as_object().is_some_and(Map::is_empty) || child.is_null() {
            object.remove(*key);
        }
    }
    remove_path(&mut value, path);
    value
}

/// The fields that people write first in an entry; the rest follows by name.
const LEADING_FIELDS: [&str; 5] = ["name", "type", "command", "cmd", "args"];

/// The fields in the usual order.
fn sorted_fields(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| {
        LEADING_FIELDS.iter().position(|first| first == key).unwrap_or(LEADING_FIELDS.len())
    });
    fields
}

/// The line end that a text uses.
pub(crate) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Removes the only occurrence of `fragment`; none if it occurs zero or several times.
fn remove_once(text: &str, fragment: &str) -> Option<String> {
    let mut occurrences = text.match_indices(fragment);
    let (at, _) = occurrences.next()?;
    if fragment.is_empty() || occurrences.next().is_some() {
        return None;
    }
    let (before, after) = (&text[..at], &text[at + fragment.len()..]);
    // The insertion added a missing line end, which is still needed if text follows.
    let needed = fragment.starts_with(['\r', '\n']) && !after.is_empty() && !after.starts_with(['\r', '\n']);
    let end = if needed && !before.is_empty() && !before.ends_with('\n') { newline(text) } else { "" };
    Some(format!("{before}{end}{after}"))
}

/// The start of the line at this position.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The position after the line end of the line at this position.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn line_number(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
