//! The canonical form of a definition that is compared with the approved one, and its hash.
//!
//! The form contains everything that a model may read, as the server sent it; changes that the hub itself
//! makes (other names, injected arguments) do not affect pins. Members that no model reads are left out, so
//! that a new icon needs no approval. Keys are sorted, because their order has no meaning.

use aws_lc_rs::digest;
use plexus_kit::hex;
use plexus_proto::api::INSTRUCTIONS;
use serde_json::{Map, Value};

/// Longest name that a server may give a tool, in bytes.
pub(crate) const MAX_NAME: usize = 256;
/// Largest definition, schemas included, in bytes of JSON.
pub(crate) const MAX_DEFINITION: usize = 256 << 10;

/// Members of a definition that only programs read. All others are pinned, including unknown ones.
const UNPINNED_MEMBERS: [&str; 2] = ["icons", "execution"];

/// The text of one tool, or the instructions of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PinnedText {
    /// The server's own name of the tool, or [`INSTRUCTIONS`].
    pub(crate) name: String,
    /// Hash of the form, in hexadecimal.
    pub(crate) hash: String,
    /// With sorted keys.
    pub(crate) form: Map<String, Value>,
    /// Size of the form as JSON.
    size: usize,
}

impl PinnedText {
    /// The pinned text of a tool.
    pub(crate) fn of_tool(definition: &Map<String, Value>) -> Self {
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let read = |(member, value): &(&String, &Value)| {
            !UNPINNED_MEMBERS.contains(&member.as_str()) && !value.is_null()
        };
        let form = definition.iter().filter(read).map(|(member, value)| (member.clone(), value.clone()));
        Self::new(name, form.collect())
    }

    /// The pinned text of a server's instructions. Missing instructions are pinned too, so that adding some
    /// later is a change.
    pub(crate) fn of_server(instructions: Option<&str>) -> Self {
        let form = instructions.map(|text| ("instructions".to_owned(), Value::from(text)));
        Self::new(INSTRUCTIONS.to_owned(), form.into_iter().collect())
    }

    fn new(name: String, form: Map<String, Value>) -> Self {
        let mut form = Value::Object(form);
        form.sort_all_objects();
        let text = form.to_string();
        let hash = hex::encode(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        let form = match form {
            Value::Object(form) => form,
            _ => Map::new(),
        };
        Self { name, hash, form, size: text.len() }
    }

    /// Whether a tool with this definition can be offered.
    pub(crate) fn is_usable(&self) -> bool {
        (1..=MAX_NAME).contains(&self.name.len()) && self.name != INSTRUCTIONS && self.size <= MAX_DEFINITION
    }
}

#[cfg(test)]
mod tests;
