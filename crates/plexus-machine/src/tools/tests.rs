use serde_json::json;

use super::specs;

/// Snapshot of the tool list as a client sees it: any change to a name, description or schema shows up here.
#[test]
fn tool_list_matches_its_snapshot() {
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
fn aliases_are_unambiguous() {
    for spec in specs() {
        let conflicts = plexus_tools::alias::conflicts(spec.handling.aliases, &spec.input_schema);
        assert!(conflicts.is_empty(), "{}: {conflicts:?}", spec.name);
    }
}

/// Some clients reject schemas with these keywords at the top level, or cannot resolve references.
#[test]
fn schemas_use_no_combinators_or_references() {
    for spec in specs() {
        for schema in [Some(&spec.input_schema), spec.output_schema.as_ref()].into_iter().flatten() {
            assert_eq!(schema["type"], "object", "{}", spec.name);
            for key in ["oneOf", "anyOf", "allOf", "$ref", "$defs", "$schema"] {
                assert!(schema.get(key).is_none(), "{} has {key} at its top level", spec.name);
            }
            assert!(!schema.to_string().contains("\"$ref\""), "{} contains a reference", spec.name);
        }
    }
}
