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

/// A node with this in it, which is used by what is in `$defs` too.
fn circle(node: Value) -> Value {
    let defs = json!({ "node": node, "other": { "$ref": "#/$defs/node" }, "word": { "type": "string" } });
    json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/node" } }, "$defs": defs })
}

#[test]
fn a_circle_is_light_where_each_value_meets_one_part_of_it() {
    let node = || json!({ "$ref": "#/$defs/node" });
    for light in [
        json!({ "type": "object", "properties": { "left": node(), "right": node() }, "required": ["left"] }),
        json!({ "items": node(), "minItems": 1 }),
        json!({ "items": [node(), { "type": "string" }, node()] }),
        json!({ "additionalProperties": { "items": node() }, "properties": { "anyOf": node() } }),
        json!({ "properties": { "x": { "$ref": "#/$defs/node", "description": "a node", "default": {} } } }),
        // What does not lead back is not gone through again and again.
        json!({ "properties": { "x": node() }, "anyOf": [{ "required": ["x"] }, { "$ref": "#/$defs/word" }] }),
    ] {
        assert!(is_light(&circle(light.clone())), "{light}");
    }
    // Outside of the circle it is entered as often as it is written down.
    let twice = json!({ "anyOf": [node(), { "allOf": [node(), { "type": "object" }] }] });
    let node = json!({ "properties": { "x": node() } });
    assert!(is_light(&json!({ "properties": { "y": twice }, "$defs": { "node": node } })));
}

#[test]
fn a_circle_that_may_double_with_every_level_of_the_arguments_is_too_heavy() {
    let node = || json!({ "$ref": "#/$defs/node" });
    let inside = || json!({ "properties": { "x": node() } });
    let mut heavy: Vec<Value> = ["allOf", "anyOf", "oneOf", "prefixItems"]
        .map(|branches| json!({ branches: [inside(), inside()] }))
        .to_vec();
    heavy.extend(
        ["not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties"]
            .map(|branch| json!({ branch: inside(), "properties": { "x": node() } })),
    );
    heavy.extend([
        json!({ "properties": { "x": node() }, "patternProperties": { "x": node() } }),
        json!({ "properties": { "x": { "anyOf": [node(), { "type": "null" }] } } }),
        json!({ "properties": { "x": { "$ref": "#/$defs/node", "properties": { "x": node() } } } }),
        // Neither goes down to a value inside.
        node(),
        json!({ "$ref": "#/$defs/other" }),
        // Leads into another circle with every turn of its own.
        json!({ "properties": { "x": node() }, "allOf": [{ "$ref": "#/$defs/chain" }] }),
    ]);
    for heavy in heavy {
        let mut schema = circle(heavy.clone());
        schema["$defs"]["chain"] = json!({ "properties": { "x": { "$ref": "#/$defs/chain" } } });
        assert!(!is_light(&schema), "{heavy}");
    }
    for itself in [
        json!({ "type": "object", "$ref": "#" }),
        json!({ "$dynamicRef": "#" }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "$ref": "#/properties/x", "properties": { "x": { "$ref": "#" } } }),
    ] {
        assert!(!is_light(&itself), "{itself}");
    }
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
