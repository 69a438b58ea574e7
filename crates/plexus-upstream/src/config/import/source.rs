//! Parses the text of a file: JSON with comments, or TOML. The format is detected from the content, not from the file
//! name.

use plexus_kit::syntax::{self, Format};
use serde_json::Value;

pub(super) fn value(text: &str) -> Result<Value, String> {
    let not_json = match syntax::json(text) {
        Ok(value) => return Ok(value),
        Err(why) => why,
    };
    match Format::Toml.parse(text) {
        Ok(table) if !table.is_empty() => Ok(Value::Object(table)),
        Err(not_toml) if is_like_toml(text) => Err(not_toml),
        _ => Err(not_json),
    }
}

/// Whether the text is most likely TOML: the first line that is not a comment is the head of a table or sets a key.
fn is_like_toml(text: &str) -> bool {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let Some(first) = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.\"' ".contains(c);
    let head = first.trim_start_matches('[').split(']').next().unwrap_or_default();
    let is_table = first.starts_with('[') && first.contains(']') && head.chars().any(char::is_alphabetic);
    let is_key = first.split_once('=').is_some_and(|(key, _)| key.chars().all(is_name));
    (is_table && head.chars().all(is_name)) || is_key
}
