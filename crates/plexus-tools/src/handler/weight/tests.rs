use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::*;
use crate::{Access, Outcome, Tool, ToolOutput, ToolSpec};

/// Each level is two of the next: `2^levels` when written out.
fn doubling(levels: usize) -> Value {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        defs.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    defs.insert(format!("d{levels}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

#[test]
fn what_doubles_with_every_reference_is_too_heavy() {
    assert!(is_light(&doubling(5)));
    assert!(!is_light(&doubling(20)));
    // Would not end in a lifetime if anybody wrote it out.
    assert!(!is_light(&doubling(500)));
}

#[test]
fn ordinary_schemas_are_light() {
    let tree = json!({
        "$id": "https://example.com/tree",
        "type": "object",
        "properties": { "tree": { "$ref": "#/$defs/node" }, "$ref": { "type": "string" }, "$id": { "type": "string" } },
        "$defs": { "node": { "properties": {
            "left": { "$ref": "#/$defs/node" }, "right": { "$ref": "#/$defs/node" }, "all": { "$ref": "#" },
        } } },
    });
    assert!(is_light(&tree));
    let wide: Map<String, Value> =
        (0..2_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    assert!(is_light(&json!({ "type": "object", "properties": wide })));
}

#[test]
fn what_cannot_be_measured_is_not_taken_for_light() {
    for unknown in [
        json!({ "$ref": "https://example.com/other" }),
        json!({ "$ref": "#anchor", "$defs": { "a": { "$anchor": "anchor" } } }),
        json!({ "$ref": "#/$defs/gone" }),
        json!({ "$ref": "#/%24defs/a", "$defs": { "a": {} } }),
        json!({ "$defs": { "a": { "$id": "https://example.com/a", "$ref": "#/$defs/b" } } }),
    ] {
        assert!(!is_light(&unknown), "{unknown}");
    }
    let deep = (0..MAX_DEPTH).fold(json!({}), |inner, _| json!({ "not": inner }));
    assert!(is_light(&deep));
    assert!(!is_light(&json!({ "not": deep })));
}

#[test]
fn a_schema_that_is_too_heavy_is_not_compiled_and_the_tool_is_there() {
    let tool = |input_schema: Value| {
        let spec = ToolSpec { input_schema, ..ToolSpec::hub("t", "T", "", Access::READ) };
        let run = |_, _| -> futures_util::future::BoxFuture<'static, _> {
            Box::pin(std::future::ready(Ok(Outcome::Ready(ToolOutput::new("", &())))))
        };
        Tool::upstream(spec, Arc::new(run))
    };
    assert!(tool(doubling(5)).validator.is_some());
    let began = Instant::now();
    assert!(tool(doubling(60)).validator.is_none());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
