use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{of_input, of_output, or_queued};
use crate::QueuedWrite;

/// A recursive type, whose schema contains references.
#[derive(Debug, Serialize, JsonSchema)]
struct Tree {
    name: String,
    branches: Vec<Tree>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Garden {
    tree: Tree,
}

#[test]
fn output_schema_accepts_only_own_output_or_a_queued_write() {
    let queued = json!(QueuedWrite::new("todo", "k", "kept"));
    assert_eq!(queued["queued"], true);
    let leaf = json!({ "name": "a", "branches": [] });
    let tree = json!({ "name": "b", "branches": [leaf] });
    let invalid_tree = json!({ "name": "b", "branches": [{ "name": 1, "branches": [] }] });
    for (schema, own_output, wrong) in [
        (or_queued(of_output::<Tree>()), tree.clone(), invalid_tree.clone()),
        (or_queued(of_output::<Garden>()), json!({ "tree": tree }), json!({ "tree": invalid_tree })),
    ] {
        assert_eq!(schema["type"], "object");
        let validator = jsonschema::validator_for(&schema).unwrap();
        for good in [&queued, &own_output] {
            assert!(validator.is_valid(good), "{good}: {schema}");
        }
        let mut not_queued = queued.clone();
        not_queued["queued"] = json!(false);
        let mut both = own_output.clone();
        both["queued"] = json!(true);
        for bad in [not_queued, both, wrong, json!({}), json!({ "queued": true }), json!([])] {
            assert!(!validator.is_valid(&bad), "{bad}: {schema}");
        }
    }
}

#[derive(Debug, JsonSchema)]
struct Wrapped {
    /// The first line of a paragraph
    /// and its second.
    ///
    /// Another paragraph.
    #[expect(dead_code, reason = "only its schema is used")]
    field: String,
}

#[test]
fn description_has_no_line_breaks_within_a_paragraph() {
    let schema = of_input::<Wrapped>();
    assert_eq!(
        schema["properties"]["field"]["description"],
        "The first line of a paragraph and its second.\n\nAnother paragraph."
    );
}
