use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{of_output, or_queued};
use crate::QueuedWrite;

/// With itself inside, and so with references.
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
fn an_answer_is_the_tools_own_or_that_it_was_queued_and_nothing_else() {
    let queued = json!(QueuedWrite::new("todo", "k", "kept"));
    assert_eq!(queued["queued"], true);
    let leaf = json!({ "name": "a", "branches": [] });
    let tree = json!({ "name": "b", "branches": [leaf] });
    let odd = json!({ "name": "b", "branches": [{ "name": 1, "branches": [] }] });
    for (schema, own, wrong) in [
        (or_queued(of_output::<Tree>()), tree.clone(), odd.clone()),
        (or_queued(of_output::<Garden>()), json!({ "tree": tree }), json!({ "tree": odd })),
    ] {
        assert_eq!(schema["type"], "object");
        let validator = jsonschema::validator_for(&schema).unwrap();
        for good in [&queued, &own] {
            assert!(validator.is_valid(good), "{good}: {schema}");
        }
        let mut lied = queued.clone();
        lied["queued"] = json!(false);
        let mut both = own.clone();
        both["queued"] = json!(true);
        for bad in [lied, both, wrong, json!({}), json!({ "queued": true }), json!([])] {
            assert!(!validator.is_valid(&bad), "{bad}: {schema}");
        }
    }
}
