use plexus_proto::NodeId;
use plexus_tools::{Host, ToolSpec};
use serde_json::{Map, Value, json};

use super::hosted;

fn convert(declared: Value) -> Result<ToolSpec, String> {
    let declared: Map<String, Value> = serde_json::from_value(declared).unwrap();
    let host = Host { id: NodeId::new(), name: "nas".to_owned() };
    hosted(&host, "files_nas", "mcp__files_nas__read".to_owned(), &declared)
}

#[test]
fn tool_of_a_node_has_a_canonical_name_and_its_own_name() {
    let spec = convert(json!({
        "name": "mcp__files__read",
        "description": "Reads a file.",
        "inputSchema": { "properties": { "path": { "type": "string" } } },
        "annotations": { "readOnlyHint": true },
    }))
    .unwrap();
    assert_eq!(spec.name, "mcp__files_nas__read");
    assert_eq!(spec.placement.describe(), "upstream:files_nas@nas");
    assert!(spec.access.annotations.read_only_hint);
    assert_eq!(spec.input_schema["type"], "object");
    let upstream = spec.upstream().unwrap();
    assert_eq!((upstream.tool.as_str(), &upstream.definition["name"]), ("read", &json!("mcp__files__read")));
}

#[test]
fn unusable_or_invisible_definitions_are_left_out() {
    let schema = json!({ "type": "object" });
    for (declared, why) in [
        (json!({ "inputSchema": schema }), "its name must have"),
        (json!({ "name": "x".repeat(500), "inputSchema": schema }), "its name must have"),
        (json!({ "name": "x", "inputSchema": { "type": "string" } }), "not \"object\""),
        (json!({ "name": "x" }), "no inputSchema"),
        (json!({ "name": "x", "inputSchema": schema, "description": "a".repeat(2_000_000) }), "bytes"),
        (
            json!({ "name": "x", "inputSchema": schema, "description": "Reads.\u{200b}\u{e0041}" }),
            "hidden text",
        ),
        (json!({ "name": "x", "inputSchema": schema, "description": "\u{1b}[2Jx" }), "terminal escape"),
    ] {
        let error = convert(declared).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
