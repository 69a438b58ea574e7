//! Summarizes a document without resolving anything, for the person who decides on it and for the record.

use plexus_mcp::http_client::names_loopback;
use serde_json::{Map, Value, json};
use url::Url;

use super::literals;

/// Arguments in a summary; of further ones only the number is given.
const MAX_ARGS: usize = 32;
/// Characters of a text in a summary.
const MAX_TEXT: usize = 200;

/// Where a document leads into the hub's own network, according to its own fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inward {
    /// It allows addresses of private networks.
    pub private: bool,
    /// Its URL names the hub's machine.
    pub loopback: bool,
}

/// Expects a document without references; they are not resolved.
#[must_use]
pub fn inward(document: &Value) -> Inward {
    let url = document.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
    Inward {
        private: document.get("allow_private").is_some_and(|value| *value != Value::Bool(false)),
        loopback: url.as_ref().and_then(Url::host).is_some_and(|host| names_loopback(&host)),
    }
}

/// The program that a document runs or the server it connects to, and which tools it trusts; bounded in size
/// and without credentials.
#[must_use]
pub fn outline(document: &Map<String, Value>) -> Map<String, Value> {
    let masked = literals::masked(document);
    let mut outline = Map::new();
    for key in ["transport", "command", "approve"] {
        if let Some(text) = masked.get(key).and_then(Value::as_str) {
            outline.insert(key.to_owned(), json!(shortened(text)));
        }
    }
    if let Some(args) = masked.get("args").and_then(Value::as_array) {
        let mut args_shown: Vec<String> =
            args.iter().filter_map(Value::as_str).take(MAX_ARGS).map(shortened).collect();
        if args.len() > args_shown.len() {
            args_shown.push(format!("… and {} more", args.len() - args_shown.len()));
        }
        outline.insert("args".to_owned(), json!(args_shown));
    }
    if let Some(origin) = masked.get("url").and_then(Value::as_str).and_then(origin) {
        outline.insert("origin".to_owned(), json!(shortened(origin)));
    }
    outline
}

/// The URL up to its path, as written.
fn origin(url: &str) -> Option<&str> {
    let host = url.find("://")? + "://".len();
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |end| host + end);
    Some(&url[..end])
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
