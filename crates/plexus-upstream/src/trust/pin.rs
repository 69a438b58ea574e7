//! The form in which a definition is compared with what was approved, and its hash.
//!
//! It has everything in it that a model may get to read, as the server sent it: what the hub itself makes of it (other
//! names, arguments that it fills in) changes no pin. What no model reads is left out, so that a new icon asks nobody for
//! anything. Keys are sorted: their order means nothing.

use aws_lc_rs::digest;
use plexus_kit::hex;
use plexus_proto::api::INSTRUCTIONS;
use serde_json::{Map, Value};

/// Longest name that a server may give a tool, in bytes.
pub(crate) const MAX_NAME: usize = 256;
/// Largest definition, schemas included, in bytes of JSON.
pub(crate) const MAX_DEFINITION: usize = 256 << 10;

/// Members of a definition that are for programs. All others are pinned, also those that nobody knows yet.
const UNREAD: [&str; 2] = ["icons", "execution"];

/// What a server says of one tool, or of itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PinnedText {
    /// The server's own name of the tool, or [`INSTRUCTIONS`].
    pub(crate) name: String,
    /// Of the form, in hexadecimal.
    pub(crate) hash: String,
    /// Sorted.
    pub(crate) form: Map<String, Value>,
    /// Of the form, as JSON.
    size: usize,
}

impl PinnedText {
    /// What is said of a tool.
    pub(crate) fn of_tool(definition: &Map<String, Value>) -> Self {
        let name = definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let read =
            |(member, value): &(&String, &Value)| !UNREAD.contains(&member.as_str()) && !value.is_null();
        let form = definition.iter().filter(read).map(|(member, value)| (member.clone(), value.clone()));
        Self::new(name, form.collect())
    }

    /// What is said of the server. That nothing is said is pinned too: what comes later is a change.
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

    /// Whether there can be a tool of which this is said.
    pub(crate) fn is_usable(&self) -> bool {
        (1..=MAX_NAME).contains(&self.name.len()) && self.name != INSTRUCTIONS && self.size <= MAX_DEFINITION
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(definition: &Value) -> String {
        PinnedText::of_tool(definition.as_object().unwrap()).hash
    }

    #[test]
    fn everything_that_a_model_reads_changes_the_hash_and_nothing_else_does() {
        let base = json!({
            "name": "read", "title": "Read", "description": "Reads.",
            "inputSchema": { "type": "object", "properties": { "a": { "type": "string" }, "b": {} } },
            "outputSchema": { "type": "object" }, "annotations": { "readOnlyHint": false },
        });
        for (member, value) in [
            ("name", json!("reads")),
            ("title", json!("READ")),
            ("description", json!("Reads. ")),
            ("description", json!("Reads.\u{200B}")),
            ("inputSchema", json!({ "type": "object", "properties": { "a": { "type": "string" } } })),
            ("outputSchema", json!({ "type": "object", "description": "x" })),
            ("annotations", json!({ "readOnlyHint": true })),
            ("whatever comes", json!("x")),
            // Some clients show a part of it to their model.
            ("_meta", json!({ "vendor/hint": "x" })),
        ] {
            let mut changed = base.clone();
            changed[member] = value;
            assert_ne!(hash(&changed), hash(&base), "{member}");
        }
        let same: Value = serde_json::from_str(
            r#"{"annotations": {"readOnlyHint": false}, "outputSchema": {"type": "object"}, "icons": [{"src": "x"}],
                "execution": {}, "unknown": null, "title": "Read", "description": "Reads.",
                "inputSchema": {"properties": {"b": {}, "a": {"type": "string"}}, "type": "object"}, "name": "read"}"#,
        )
        .unwrap();
        assert_eq!(hash(&same), hash(&base));
        // Pins are kept for years: the form must not change by accident.
        let known = "60d4353e9a5499b483d09f13d9e28060e70f34edf787bb7040ba30bd390f85af";
        assert_eq!(hash(&json!({ "name": "a", "inputSchema": { "type": "object" } })), known);
    }

    #[test]
    fn what_is_said_of_a_server_is_no_tool_and_nothing_is_something_too() {
        let (nothing, empty, text) =
            (PinnedText::of_server(None), PinnedText::of_server(Some("")), PinnedText::of_server(Some("x")));
        assert!(nothing.hash != empty.hash && empty.hash != text.hash);
        assert_eq!(text.name, INSTRUCTIONS);
    }
}
