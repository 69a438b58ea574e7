use super::*;

fn cleaned(mut definition: Value) -> Result<Value, &'static str> {
    clean(definition.as_object_mut().unwrap()).map(|()| definition)
}

#[test]
fn invalid_members_are_corrected_or_dropped() {
    let sloppy = json!({
        "name": "sloppy", "title": 7, "description": ["x"], "_meta": [], "execution": { "taskSupport": "required" },
        "annotations": { "title": 1, "readOnlyHint": "yes", "destructiveHint": null, "idempotentHint": true, "own": 1 },
        "icons": [1, {}, { "src": "a", "sizes": "big" }, { "src": "b", "theme": "blue" }, { "src": "c", "theme": "dark" }],
        "inputSchema": { "required": null, "properties": { "a": true, "b": false, "c": "text", "d": { "type": "string" } } },
        "outputSchema": { "type": "array", "required": [1], "properties": [] },
    });
    assert_eq!(
        cleaned(sloppy).unwrap(),
        json!({
            "name": "sloppy",
            "annotations": { "idempotentHint": true, "own": 1 },
            "icons": [{ "src": "c", "theme": "dark" }],
            "inputSchema": {
                "type": "object",
                "properties": { "a": {}, "b": { "not": {} }, "c": {}, "d": { "type": "string" } },
            },
            "outputSchema": { "type": "array" },
        })
    );
}

#[test]
fn valid_definition_is_unchanged() {
    let right = json!({
        "name": "right", "title": "Right", "description": "x", "_meta": { "a": 1 },
        "annotations": { "title": "Right", "readOnlyHint": true },
        "icons": [{ "src": "a", "mimeType": "image/png", "sizes": ["48x48"] }],
        "inputSchema": { "type": "object", "properties": { "a": {} }, "required": ["a"], "$defs": { "x": true } },
        "outputSchema": { "type": "object", "properties": {} },
    });
    assert_eq!(cleaned(right.clone()), Ok(right));
}

#[test]
fn arguments_must_be_an_object() {
    for (kind, fits) in [
        (json!(null), true),
        (json!(["object", "null"]), true),
        (json!(["string"]), false),
        (json!("array"), false),
        (json!(7), false),
    ] {
        let outcome = cleaned(json!({ "inputSchema": { "type": kind } }));
        assert_eq!(outcome.is_ok(), fits, "{kind}");
        if let Ok(definition) = outcome {
            assert_eq!(definition["inputSchema"]["type"], "object");
        }
    }
    assert!(cleaned(json!({ "inputSchema": true })).is_err());
}
