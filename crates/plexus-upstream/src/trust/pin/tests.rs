use serde_json::json;

use super::*;

fn hash(definition: &Value) -> String {
    PinnedText::of_tool(definition.as_object().unwrap()).hash
}

#[test]
fn hash_covers_exactly_what_a_model_reads() {
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
        // Some clients show parts of it to their model.
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
    // Pins are stored for years, so the form must not change by accident.
    let expected_hash = "60d4353e9a5499b483d09f13d9e28060e70f34edf787bb7040ba30bd390f85af";
    assert_eq!(hash(&json!({ "name": "a", "inputSchema": { "type": "object" } })), expected_hash);
}

#[test]
fn missing_and_empty_instructions_have_different_hashes() {
    let (nothing, empty, text) =
        (PinnedText::of_server(None), PinnedText::of_server(Some("")), PinnedText::of_server(Some("x")));
    assert!(nothing.hash != empty.hash && empty.hash != text.hash);
    assert_eq!(text.name, INSTRUCTIONS);
}
