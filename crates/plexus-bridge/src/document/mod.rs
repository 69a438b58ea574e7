//! A value at one place of a configuration file of someone else, put in and taken out again; all else stays as it was written.
//!
//! - An edit is a few bytes that are put in or cut out. Nothing of the text is written anew: comments, order, line ends, a
//!   byte order mark and whatever nobody here knows of are where they were.
//! - After each edit both texts are read as values and compared: they differ in the place that was meant and in nothing
//!   else, or the edit is refused. So a way of writing that nobody thought of ends in a refusal, and never in damage.
//! - Taking out what was put in gives the same bytes as before, also when the rest was changed in between.

mod json;
mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest file that is edited. Claude Code keeps a history beside its settings.
pub const MOST: usize = 16 << 20;
/// Deepest nesting that is read.
const DEEPEST: usize = 128;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    Toml,
    Json,
    /// JSON with comments and commas at the end of lists.
    Jsonc,
    Yaml,
}

/// Why a text is not edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not what its name says.
    #[error("{0}")]
    Invalid(String),
    /// It can be read, and not be edited without doubt.
    #[error("{0}")]
    Unclear(String),
}

impl EditError {
    fn unclear(text: impl Into<String>) -> Self {
        Self::Unclear(text.into())
    }
}

/// What takes an edit back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    Inserted {
        /// How many of the objects around it were made with it.
        made: usize,
        /// What was between the braces of an object that had nothing in it; of a file, where that was empty.
        hollow: Option<String>,
        /// The text that was put in, where it is one piece.
        fragment: Option<String>,
    },
    /// What stood there before.
    Replaced { raw: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    pub undo: Undo,
}

impl Syntax {
    /// The whole text as a value.
    pub fn value(self, text: &str) -> Result<Value, EditError> {
        let (_, text) = split_mark(text);
        self.parsed(text)
    }

    /// The value at a place.
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

    /// Puts a value at a place: in the place of what is there, or anew.
    pub fn set(self, text: &str, path: &[&str], value: &Value) -> Result<Edited, EditError> {
        let (mark, text) = split_mark(text);
        let before = self.parsed(text)?;
        let mut edited = match self {
            Self::Toml => toml::set(text, path, value)?,
            Self::Json | Self::Jsonc => json::set(text, path, value, self == Self::Jsonc)?,
            Self::Yaml => yaml::set(text, path, value)?,
        };
        let after = self.parsed(&edited.text).map_err(|_| in_doubt())?;
        if !differ_only_at(path, &before, &after) || at(&after, path) != Some(value) {
            return Err(in_doubt());
        }
        edited.text.insert_str(0, mark);
        Ok(edited)
    }

    /// Takes out what [`Syntax::set`] has put in.
    pub fn undo(self, text: &str, path: &[&str], undo: &Undo) -> Result<String, EditError> {
        let (mark, text) = split_mark(text);
        let before = self.parsed(text)?;
        let raw = match undo {
            Undo::Replaced { raw } => Some(raw),
            Undo::Inserted { .. } => None,
        };
        let after = match (at(&before, path), self) {
            // Somebody was faster.
            (None, _) if raw.is_none() => text.to_owned(),
            (_, Self::Toml) => toml::undo(text, path, undo)?,
            (_, Self::Json | Self::Jsonc) => json::undo(text, path, undo, self == Self::Jsonc)?,
            (_, Self::Yaml) => yaml::undo(text, path, undo)?,
        };
        let value = self.parsed(&after).map_err(|_| in_doubt())?;
        if !differ_only_at(path, &before, &value) || (raw.is_none() && at(&value, path).is_some()) {
            return Err(in_doubt());
        }
        Ok(format!("{mark}{after}"))
    }

    fn parsed(self, text: &str) -> Result<Value, EditError> {
        if text.len() > MOST {
            let message = format!("is longer than {} MiB, which is more than is edited", MOST >> 20);
            return Err(EditError::Unclear(message));
        }
        let value = match self {
            Self::Toml => toml::value(text)?,
            Self::Json | Self::Jsonc => json::value(text, self == Self::Jsonc)?,
            Self::Yaml => yaml::value(text)?,
        };
        match value {
            Value::Object(_) => Ok(value),
            Value::Null => Ok(Value::Object(Map::new())),
            _ => Err(EditError::unclear("holds no object with settings at its top")),
        }
    }
}

fn in_doubt() -> EditError {
    EditError::unclear("is written in a way that cannot be edited without doubt; nothing was changed")
}

/// The byte order mark, if there is one, and the text behind it.
fn split_mark(text: &str) -> (&str, &str) {
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    text.split_at(mark)
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Whether two values are the same but for what is at `path`, and for objects around it that hold nothing else.
fn differ_only_at(path: &[&str], one: &Value, other: &Value) -> bool {
    without(path, one.clone()) == without(path, other.clone())
}

fn without(path: &[&str], mut value: Value) -> Value {
    fn cut(value: &mut Value, path: &[&str]) {
        let (Some(object), Some((key, inner))) = (value.as_object_mut(), path.split_first()) else { return };
        let Some(child) = object.get_mut(*key) else { return };
        if !inner.is_empty() {
            cut(child, inner);
        }
        if inner.is_empty() || child.as_object().is_some_and(Map::is_empty) || child.is_null() {
            object.remove(*key);
        }
    }
    cut(&mut value, path);
    value
}

/// What people write first of an entry; the rest follows by name.
const FIRST: [&str; 5] = ["name", "type", "command", "cmd", "args"];

/// Fields in the order in which people write them.
fn in_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| FIRST.iter().position(|first| first == key).unwrap_or(FIRST.len()));
    fields
}

/// The line end that a text uses.
pub(crate) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The text without the one place where `fragment` stands; none where it is not there, or more than once.
fn cut_once(text: &str, fragment: &str) -> Option<String> {
    let mut places = text.match_indices(fragment);
    let (at, _) = places.next()?;
    if fragment.is_empty() || places.next().is_some() {
        return None;
    }
    let (before, after) = (&text[..at], &text[at + fragment.len()..]);
    // A line that had no end got one by ours, and needs it for what was written below.
    let needed = fragment.starts_with(['\r', '\n']) && !after.is_empty() && !after.starts_with(['\r', '\n']);
    let end = if needed && !before.is_empty() && !before.ends_with('\n') { newline(text) } else { "" };
    Some(format!("{before}{end}{after}"))
}

/// Where the line begins that this is on.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Behind the line end of the line that this is on.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

fn line_number(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
