use serde_json::json;

use super::specs;

/// The list as a client sees it: a change to any name, text or schema shows up here.
#[test]
fn the_tools_of_a_machine_are_what_was_agreed() {
    let tools: Vec<_> = specs()
        .iter()
        .map(|spec| {
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
    for spec in specs() {
        let conflicts = plexus_tools::alias::conflicts(spec.handling.aliases, &spec.input_schema);
        assert!(conflicts.is_empty(), "{}: {conflicts:?}", spec.name);
    }
}

/// Some clients refuse schemas with these at the top level, or cannot resolve references.
#[test]
fn schemas_are_plain() {
    for spec in specs() {
        for schema in [Some(&spec.input_schema), spec.output_schema.as_ref()].into_iter().flatten() {
            assert_eq!(schema["type"], "object", "{}", spec.name);
            for key in ["oneOf", "anyOf", "allOf", "$ref", "$defs", "$schema"] {
                assert!(schema.get(key).is_none(), "{} has {key} at its top", spec.name);
            }
            assert!(!schema.to_string().contains("\"$ref\""), "{} has a reference", spec.name);
        }
    }
}
