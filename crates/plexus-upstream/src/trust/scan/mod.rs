//! What is strange about what a server says, before anybody trusts it.
//!
//! Every text of a definition is looked at, wherever it stands: descriptions of arguments, names of properties, values to
//! choose from, defaults. A finding proves nothing. It means that a person should look, so ordinary descriptions, however
//! long, loud or foreign, must not have any; what only a reader of the whole text could tell is left to that person.

mod addressing;
mod encoded;
mod hidden;
mod letters;

use plexus_proto::api::{FlagKind, ToolFlag};
use serde_json::{Map, Value};

pub(crate) use hidden::visible;
pub(super) use letters::{folded, squashed};

/// Of one definition; more say no more.
const MAX_FLAGS: usize = 16;
/// Characters of a finding that are shown.
const SHOWN: usize = 100;

/// What is strange about a definition by itself.
pub(crate) fn scan(form: &Map<String, Value>) -> Vec<ToolFlag> {
    let mut flags = Vec::new();
    texts(form, &mut |at, text| {
        if flags.len() < MAX_FLAGS {
            flags.extend(of_text(text).into_iter().map(|(kind, found)| ToolFlag {
                kind,
                at: visible(at),
                found: shorten(&visible(&found)),
            }));
        }
    });
    flags.truncate(MAX_FLAGS);
    flags
}

/// Each kind at most once.
fn of_text(text: &str) -> Vec<(FlagKind, String)> {
    let found = [
        (FlagKind::TerminalEscape, hidden::escape(text)),
        (FlagKind::HiddenText, hidden::found(text).or_else(|| letters::mixed(text))),
        (FlagKind::Instructions, addressing::found(text)),
        (FlagKind::EncodedData, encoded::found(text)),
    ];
    found.into_iter().filter_map(|(kind, found)| Some((kind, found?))).collect()
}

/// Hands on every text of a definition, with the field that it stands in: names of fields are texts too.
pub(super) fn texts<'f>(form: &'f Map<String, Value>, take: &mut impl FnMut(&str, &'f str)) {
    for (name, value) in form {
        walk(&mut name.clone(), value, take);
    }
}

fn walk<'f>(at: &mut String, value: &'f Value, take: &mut impl FnMut(&str, &'f str)) {
    let end = at.len();
    match value {
        Value::String(text) => take(at, text),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                at.push_str(&format!("[{place}]"));
                walk(at, item, take);
                at.truncate(end);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                at.push('.');
                at.extend(name.chars().take(SHOWN));
                take(at, name);
                walk(at, field, take);
                at.truncate(end);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn shorten(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
