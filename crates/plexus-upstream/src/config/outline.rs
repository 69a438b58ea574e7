//! What a document asks for, told without filling anything in: for those who decide on it, and for the record.

use plexus_mcp::http_client::names_loopback;
use serde_json::{Map, Value, json};
use url::Url;

use super::literals;

/// Arguments that are told; of more, only their number.
const MAX_ARGS: usize = 32;
/// Characters of a text that are told.
const MAX_TEXT: usize = 200;

/// Where a document leads into the hub's own network, by its own word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inward {
    /// It says that addresses of private networks are meant.
    pub private: bool,
    /// Its address names the hub's machine.
    pub loopback: bool,
}

/// To be asked of a document without references: what they stand for is not looked at.
#[must_use]
pub fn inward(document: &Value) -> Inward {
    let url = document.get("url").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
    Inward {
        private: document.get("allow_private").is_some_and(|said| *said != Value::Bool(false)),
        loopback: url.as_ref().and_then(Url::host).is_some_and(|host| names_loopback(&host)),
    }
}

/// Which program a document has the hub run or where it has it connect to, and what of it is trusted; bounded, and without
/// credentials.
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
        let mut told: Vec<String> =
            args.iter().filter_map(Value::as_str).take(MAX_ARGS).map(shortened).collect();
        if args.len() > told.len() {
            told.push(format!("… and {} more", args.len() - told.len()));
        }
        outline.insert("args".to_owned(), json!(told));
    }
    if let Some(origin) = masked.get("url").and_then(Value::as_str).and_then(origin) {
        outline.insert("origin".to_owned(), json!(shortened(origin)));
    }
    outline
}

/// The address up to its path, as written.
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
