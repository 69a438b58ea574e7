//! Scans the texts of a server for suspicious content before they are trusted.
//!
//! Every text of a definition is scanned: argument descriptions, property names, enum values, defaults. A
//! finding proves nothing; it means that a person should look. Ordinary descriptions, however long, emphatic
//! or foreign, must therefore have no findings. Manipulation that only a reader of the whole text can
//! recognize is left to that person.

mod addressing;
mod confusables;
mod encoded;
mod hidden;

use plexus_proto::api::{FlagKind, ToolFlag};
use serde_json::{Map, Value};

pub(super) use confusables::{folded, look_alike_key};
pub(crate) use hidden::visible;

/// Findings per definition; further ones add no information.
const MAX_FLAGS: usize = 16;
/// Characters of a finding that are shown.
const MAX_SHOWN: usize = 100;

/// Findings about a definition on its own.
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

/// Findings in one text, each kind at most once.
fn of_text(text: &str) -> Vec<(FlagKind, String)> {
    let findings = [
        (FlagKind::TerminalEscape, hidden::escape(text)),
        (FlagKind::HiddenText, hidden::hidden_text(text).or_else(|| confusables::mixed_script_word(text))),
        (FlagKind::Instructions, addressing::instruction(text)),
        (FlagKind::EncodedData, encoded::encoded_run(text)),
    ];
    findings.into_iter().filter_map(|(kind, found)| Some((kind, found?))).collect()
}

/// Calls `take` for every text of a definition with its field; names of fields count as texts too.
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
            for (index, item) in items.iter().enumerate() {
                at.push_str(&format!("[{index}]"));
                walk(at, item, take);
                at.truncate(end);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                at.push('.');
                at.extend(name.chars().take(MAX_SHOWN));
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
    match text.char_indices().nth(MAX_SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
