use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::*;
use crate::{Access, Outcome, Tool, ToolOutput, ToolSpec};

/// Each level references the next one twice: `2^levels` subschemas when expanded.
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
fn exponential_references_are_too_heavy() {
    assert!(is_light(&doubling(5)));
    assert!(!is_light(&doubling(20)));
    // Measuring it must not expand it.
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

/// A schema with this node, which is also referenced from `$defs`.
fn recursive(node: Value) -> Value {
    let defs = json!({ "node": node, "other": { "$ref": "#/$defs/node" }, "word": { "type": "string" } });
    json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/node" } }, "$defs": defs })
}

#[test]
fn recursion_is_light_if_each_value_matches_one_branch() {
    let node = || json!({ "$ref": "#/$defs/node" });
    for light in [
        json!({ "type": "object", "properties": { "left": node(), "right": node() }, "required": ["left"] }),
        json!({ "items": node(), "minItems": 1 }),
        json!({ "items": [node(), { "type": "string" }, node()] }),
        json!({ "additionalProperties": { "items": node() }, "properties": { "anyOf": node() } }),
        json!({ "properties": { "x": { "$ref": "#/$defs/node", "description": "a node", "default": {} } } }),
        // A branch that is not recursive is not visited again.
        json!({ "properties": { "x": node() }, "anyOf": [{ "required": ["x"] }, { "$ref": "#/$defs/word" }] }),
    ] {
        assert!(is_light(&recursive(light.clone())), "{light}");
    }
    // From outside the recursion, each reference enters it once.
    let twice = json!({ "anyOf": [node(), { "allOf": [node(), { "type": "object" }] }] });
    let node = json!({ "properties": { "x": node() } });
    assert!(is_light(&json!({ "properties": { "y": twice }, "$defs": { "node": node } })));
}

#[test]
fn recursion_that_branches_at_every_level_is_too_heavy() {
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
        // These do not descend into the value.
        node(),
        json!({ "$ref": "#/$defs/other" }),
        // Enters another recursion at every level.
        json!({ "properties": { "x": node() }, "allOf": [{ "$ref": "#/$defs/chain" }] }),
    ]);
    for heavy in heavy {
        let mut schema = recursive(heavy.clone());
        schema["$defs"]["chain"] = json!({ "properties": { "x": { "$ref": "#/$defs/chain" } } });
        assert!(!is_light(&schema), "{heavy}");
    }
    for self_referencing in [
        json!({ "type": "object", "$ref": "#" }),
        json!({ "$dynamicRef": "#" }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "$ref": "#/properties/x", "properties": { "x": { "$ref": "#" } } }),
    ] {
        assert!(!is_light(&self_referencing), "{self_referencing}");
    }
}

#[test]
fn unresolvable_references_and_deep_nesting_are_too_heavy() {
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
fn tool_with_a_heavy_schema_has_no_validator() {
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
