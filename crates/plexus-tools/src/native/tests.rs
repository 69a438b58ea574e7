use serde_json::json;

use crate::{Buffered, native};

/// The list as a client sees it: a change to any name, text or schema shows up here.
#[test]
fn the_tool_list_is_what_was_agreed() {
    let tools: Vec<_> = native::tools()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            json!({
                "name": spec.name,
                "description": spec.description,
                "access": spec.access.annotations,
                "actions": spec.actions.iter().map(|a| json!([a.name, a.access.annotations, a.access.bufferable])).collect::<Vec<_>>(),
                "input": spec.input_schema,
                "output": spec.output_schema,
            })
        })
        .collect();
    insta::assert_json_snapshot!(tools);
}

#[test]
fn aliases_stand_for_one_argument_each() {
    for tool in native::tools() {
        let spec = tool.spec();
        let conflicts = crate::alias::conflicts(spec.handling.aliases, &spec.input_schema);
        assert!(conflicts.is_empty(), "{}: {conflicts:?}", spec.name);
    }
}

/// Some clients refuse schemas with these at the top level, or cannot resolve references.
#[test]
fn schemas_are_plain() {
    for tool in native::tools() {
        let spec = tool.spec();
        for schema in [Some(&spec.input_schema), spec.output_schema.as_ref()].into_iter().flatten() {
            assert_eq!(schema["type"], "object", "{}", spec.name);
            // The answer to a call that may be queued has two forms.
            let may_have_forms =
                spec.output_schema.as_ref() == Some(schema) && spec.buffered() != Buffered::Never;
            for key in ["oneOf", "anyOf", "allOf", "$ref", "$defs", "$schema"] {
                let allowed = may_have_forms && key == "anyOf";
                assert!(allowed || schema.get(key).is_none(), "{} has {key} at its top", spec.name);
            }
            assert!(!schema.to_string().contains("\"$ref\""), "{} has a reference", spec.name);
        }
    }
}

/// What a client has of them in place of an answer is in their schemas too.
#[test]
fn answers_of_tools_that_may_be_queued_may_say_so() {
    let queued = json!(crate::QueuedWrite::new("todo", "k", "kept"));
    for tool in native::tools() {
        let spec = tool.spec();
        let Some(schema) = &spec.output_schema else { continue };
        let allows = jsonschema::validator_for(schema).unwrap().is_valid(&queued);
        assert_eq!(allows, spec.buffered() != Buffered::Never, "{}", spec.name);
        assert_eq!(allows, ["scratchpad", "todo"].contains(&&*spec.name), "{}", spec.name);
    }
}
