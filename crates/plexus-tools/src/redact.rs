//! What must not stand in a record: values under telling names, and text that looks like a
//! credential wherever it stands.

use plexus_kit::credential;
pub(crate) use plexus_kit::credential::{REDACTED, is_secret_name};
use serde_json::Value;

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
pub fn text(text: &str) -> Option<String> {
    match credential::pattern() {
        Some(pattern) if pattern.is_match(text) => Some(pattern.replace_all(text, REDACTED).into_owned()),
        Some(_) => None,
        // The pattern is fixed and compiles; should it not, nothing is shown.
        None => Some(REDACTED.to_owned()),
    }
}

/// JSON text of at most about `limit` bytes: what is longer is kept as the beginning of the text.
pub(crate) fn bounded(value: &Value, limit: usize) -> String {
    let text = value.to_string();
    if text.len() <= limit { text } else { beginning(&text, limit).to_string() }
}

/// The value, or its beginning when it is longer than `limit` bytes.
pub(crate) fn bounded_value(value: Value, limit: usize) -> Value {
    let text = value.to_string();
    if text.len() <= limit { value } else { beginning(&text, limit) }
}

fn beginning(text: &str, limit: usize) -> Value {
    let cut = text.floor_char_boundary(limit);
    serde_json::json!({ "truncated": true, "bytes": text.len(), "beginning": &text[..cut] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{bounded, value};

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let jwt = ["eyJhbGciOiJFZERTQSJ9", "eyJqdGkiOiIwMTkifQ", "c2lnbmF0dXJlLXBhcnQ"].join(".");
        let mut arguments = json!({
            "password": "hunter2",
            "API-Key": "k",
            "nested": [{ "client_secret": { "a": 1 }, "max_tokens": 5, "text": format!("use {jwt} now") }],
            "url": "postgres://ann:pw@db/x",
            "header": "Authorization: Bearer abcdefgh12345",
            "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\nafter",
            "plain": "a token of appreciation",
            "redis": "redis://:p@ss@host/0",
            "query": "https://x.example/a?b=1&access_token=abc&c=2",
            "env": "AWS_SECRET_ACCESS_KEY=abc123 HOME=/root",
        });
        value(&mut arguments);
        assert_eq!(
            arguments,
            json!({
                "password": "[redacted]",
                "API-Key": "[redacted]",
                "nested": [{ "client_secret": "[redacted]", "max_tokens": 5, "text": "use [redacted] now" }],
                "url": "postgres[redacted]db/x",
                "header": "Authorization: [redacted]",
                "pem": "[redacted]\nafter",
                "plain": "a token of appreciation",
                "redis": "redis[redacted]host/0",
                "query": "https://x.example/a?b=1[redacted]&c=2",
                "env": "[redacted] HOME=/root",
            })
        );
    }

    #[test]
    fn a_long_value_is_cut_and_stays_json() {
        let text = bounded(&json!({ "content": "ü".repeat(10_000) }), 1000);
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["truncated"], true);
        assert!(text.len() < 1200, "{}", text.len());
    }
}
