//! What must not stand in a record: values under telling names, and text that looks like a
//! credential wherever it stands.
//!
//! Most of what calls carry has neither. So JSON that is going to be kept as text is looked at as text
//! first ([`raw`]), and taken apart only where something in it looks as if it had to go.

mod raw;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

pub(crate) const REDACTED: &str = "[redacted]";

/// Names, without `-` and `_`, whose value is a secret when the field's name ends in one of them.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "credential",
    "credentials",
    "privatekey",
    "accesskey",
    "secretkey",
    "signingkey",
    "cookie",
];

static SECRET_TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let alternatives = [
        // A JSON Web Token, ours included.
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/-]{8,}=*",
        // Keys with the prefixes their issuers gave them.
        r"\b[sr]k[-_][A-Za-z0-9_-]{16,}",
        r"\b(?:npm|hf|pypi|dop_v1|shpat|glsa)[_-][A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
        // user:password@ in a URL, and secrets among its parameters.
        r"://[^/\s:@]{0,100}:[^/\s]{1,200}@",
        r"(?i:[?&](?:[a-z_-]*token|[a-z_-]*key|[a-z_-]*secret|password|sig|signature)=)[^&\s\x22']+",
        // name=value and name: value in text, such as an environment or a configuration file.
        r"(?i:\b[a-z0-9_.-]*(?:password|passwd|secret|token|api_?key|access_?key|private_?key)[\x22']?\s*[:=]\s*)[\x22']?[^\s\x22',;&]{3,}",
    ];
    Regex::new(&alternatives.join("|")).ok()
});

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
            for (name, field) in fields {
                if is_secret_name(name) && !field.is_null() && !field.is_boolean() {
                    *field = Value::from(REDACTED);
                } else {
                    self::value(field);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text without what looks like a credential; none when there is nothing to hide.
pub(crate) fn text(text: &str) -> Option<String> {
    match SECRET_TEXT.as_ref() {
        Some(pattern) if pattern.is_match(text) => Some(pattern.replace_all(text, REDACTED).into_owned()),
        Some(_) => None,
        // The pattern is fixed and compiles; should it not, nothing is shown.
        None => Some(REDACTED.to_owned()),
    }
}

pub(crate) fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|secret| ends_in(name, secret))
}

/// Whether the name ends in the word, with `-` and `_` left out and whatever its case.
fn ends_in(name: &str, word: &str) -> bool {
    let mut letters = name.bytes().rev().filter(|byte| !matches!(byte, b'-' | b'_'));
    word.bytes()
        .rev()
        .all(|expected| letters.next().is_some_and(|byte| byte.to_ascii_lowercase() == expected))
}

/// A value as JSON text, redacted.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Only a broken `Serialize` fails, and then there is nothing to keep.
    match serde_json::to_string(value) {
        Ok(text) if raw::is_clean(&text) => text,
        Ok(text) => parsed(&text),
        Err(_) => "null".to_owned(),
    }
}

/// JSON text as it came from elsewhere, redacted; on one line.
pub(crate) fn json_text(text: &str) -> Cow<'_, str> {
    if raw::is_clean(text) { Cow::Borrowed(text) } else { Cow::Owned(parsed(text)) }
}

fn parsed(json: &str) -> String {
    match serde_json::from_str::<Value>(json) {
        Ok(mut value) => {
            self::value(&mut value);
            value.to_string()
        }
        // Too deep, or with a number that is too large: kept as a text that says what it is.
        Err(_) => Value::from(text(json).unwrap_or_else(|| json.to_owned())).to_string(),
    }
}

/// JSON text of at most about `limit` bytes: of what is longer the beginning is kept, as text.
pub(crate) fn bounded(json: &str, limit: usize) -> Cow<'_, str> {
    if json.len() <= limit {
        return Cow::Borrowed(json);
    }
    let cut = json.floor_char_boundary(limit);
    let kept = serde_json::json!({ "truncated": true, "bytes": json.len(), "beginning": &json[..cut] });
    Cow::Owned(kept.to_string())
}
