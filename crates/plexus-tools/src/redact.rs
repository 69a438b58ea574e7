//! Redaction of records: values under credential-like names, and text anywhere, also in names, that looks like a
//! credential.
//!
//! Most calls contain neither. So JSON that is stored as text is first scanned as text ([`raw`]) and parsed only if the
//! scan finds something suspicious.

mod raw;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use aws_lc_rs::digest;
pub(crate) use plexus_kit::credential::{REDACTED, is_secret_name};
use plexus_kit::{credential, hex};
use serde::Serialize;
use serde_json::{Map, Value};

/// Shorter content could be guessed from its hash.
const MIN_HASHED: usize = 1024;

/// Redacts in place.
pub(crate) fn value(value: &mut Value) {
    match value {
        Value::String(string) => {
            if let Some(redacted) = text(string) {
                *string = redacted;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if is_secret_name(name) && !field.is_null() && !field.is_boolean() {
                    *field = Value::from(REDACTED);
                } else {
                    self::value(field);
                }
            }
            if fields.keys().any(|name| text(name).is_some()) {
                *fields = named(mem::take(fields));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The fields with redacted names. Names that differed still differ.
fn named(fields: Map<String, Value>) -> Map<String, Value> {
    let mut redacted = Map::new();
    // The last suffix used per name: counting from the start each time would be quadratic.
    let mut counted: HashMap<String, usize> = HashMap::new();
    for (name, field) in fields {
        let plain = text(&name).unwrap_or(name);
        let mut name = plain.clone();
        while redacted.contains_key(&name) {
            let number = counted.entry(plain.clone()).or_insert(1);
            *number += 1;
            name = format!("{plain} ({number})");
        }
        redacted.insert(name, field);
    }
    redacted
}

/// The text without credentials; none if it contains none.
pub fn text(text: &str) -> Option<String> {
    match credential::pattern() {
        Some(pattern) if pattern.is_match(text) => Some(pattern.replace_all(text, REDACTED).into_owned()),
        Some(_) => None,
        // The pattern is fixed and compiles; if it did not, show nothing.
        None => Some(REDACTED.to_owned()),
    }
}

/// A value as JSON text, redacted.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Only a broken `Serialize` fails; then there is nothing to store.
    match serde_json::to_string(value) {
        Ok(text) if raw::is_clean(&text) => text,
        Ok(text) => parsed(&text),
        Err(_) => "null".to_owned(),
    }
}

/// JSON text from another program, redacted and on one line.
pub(crate) fn json_text(text: &str) -> Cow<'_, str> {
    if raw::is_clean(text) { Cow::Borrowed(text) } else { Cow::Owned(parsed(text)) }
}

fn parsed(json: &str) -> String {
    match serde_json::from_str::<Value>(json) {
        Ok(mut value) => {
            self::value(&mut value);
            value.to_string()
        }
        // Nested too deeply, or with a number that is too large: stored as text if it is clean. Otherwise the extent of
        // a credential in it cannot be determined.
        Err(_) if raw::is_harmless(json) => Value::from(json).to_string(),
        Err(_) => serde_json::json!({ "unreadable": true, "bytes": json.len() }).to_string(),
    }
}

/// The value without the content of these fields, at any depth: each keeps its length, and its hash if the content is
/// too long to be guessed from it.
pub(crate) fn without<'v>(value: &'v Value, fields: &[&str]) -> Cow<'v, Value> {
    match fields.is_empty() {
        true => Cow::Borrowed(value),
        false => Cow::Owned(without_fields(value, fields)),
    }
}

fn without_fields(value: &Value, fields: &[&str]) -> Value {
    match value {
        Value::Object(object) => {
            let field = |(name, value): (&String, &Value)| match value {
                Value::String(content) if fields.contains(&name.as_str()) => (name.clone(), length(content)),
                value => (name.clone(), without_fields(value, fields)),
            };
            Value::Object(object.iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| without_fields(item, fields)).collect()),
        other => other.clone(),
    }
}

fn length(content: &str) -> Value {
    if content.len() < MIN_HASHED {
        return serde_json::json!({ "not_recorded": content.len() });
    }
    let hash = digest::digest(&digest::SHA256, content.as_bytes());
    serde_json::json!({ "not_recorded": content.len(), "sha256": hex::encode(hash.as_ref()) })
}

/// JSON text of at most about `limit` bytes; longer text is replaced by its beginning, as a string.
pub(crate) fn bounded(json: &str, limit: usize) -> Cow<'_, str> {
    if json.len() <= limit {
        return Cow::Borrowed(json);
    }
    let cut = json.floor_char_boundary(limit);
    let redacted = serde_json::json!({ "truncated": true, "bytes": json.len(), "beginning": &json[..cut] });
    Cow::Owned(redacted.to_string())
}
