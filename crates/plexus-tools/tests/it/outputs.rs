//! What a tool sends fits the schema it promises.

use std::collections::BTreeSet;

use plexus_tools::native;
use serde_json::{Value, json};

use crate::hub::{Hub, bounded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_native_tool_sends_what_its_output_schema_says() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let calls = [
            ("list_profiles", json!({})),
            ("list_tools", json!({})),
            ("list_tools", json!({ "schemas": true })),
            ("list_tools", json!({ "prefix": "zzz" })),
            ("tool_search", json!({ "query": "notes" })),
            ("tool_search", json!({ "query": "zzz" })),
            ("session_info", json!({})),
            ("todo", json!({ "action": "add", "text": "a", "session": "shared" })),
            ("session_info", json!({ "session": "shared" })),
            ("todo", json!({ "action": "list" })),
            ("todo", json!({ "action": "add", "text": "a" })),
            ("todo", json!({ "action": "add", "text": "b", "status": "in_progress" })),
            ("todo", json!({ "action": "update", "id": 1, "status": "done" })),
            ("todo", json!({ "action": "remove", "id": 1 })),
            ("todo", json!({ "action": "clear" })),
            ("scratchpad", json!({ "action": "list" })),
            ("scratchpad", json!({ "action": "write", "section": "a", "content": "" })),
            ("scratchpad", json!({ "action": "append", "section": "a", "content": "x" })),
            ("scratchpad", json!({ "action": "read", "section": "a" })),
            ("scratchpad", json!({ "action": "delete", "section": "a" })),
        ];
        let tools = native::tools();
        let mut covered = BTreeSet::new();
        for (name, arguments) in calls {
            let spec = tools.iter().find(|tool| tool.spec().name == name).unwrap().spec();
            let schema = spec.output_schema.as_ref().unwrap();
            let validator = jsonschema::validator_for(schema).unwrap();
            let output = hub.ok(&agent, name, arguments.clone()).await;
            let structured = output.structured().unwrap().into_owned();
            let problems: Vec<_> =
                validator.iter_errors(&structured).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{name} {arguments}: {problems:?} in {structured}");
            assert!(!output.text().is_empty(), "{name} {arguments}: a model gets no text");
            assert!(describes_all(schema, &structured), "{name} {arguments}: {structured}");
            covered.insert((name, arguments["action"].as_str().map(str::to_owned)));
        }
        for tool in tools.iter().filter(|tool| tool.spec().output_schema.is_some()) {
            let spec = tool.spec();
            let mut actions: Vec<_> =
                spec.actions.iter().map(|action| Some(action.name.to_string())).collect();
            if actions.is_empty() {
                actions.push(None);
            }
            for action in actions {
                assert!(
                    covered.contains(&(&*spec.name, action.clone())),
                    "{} {action:?} is not tried",
                    spec.name
                );
            }
        }
    })
    .await;
}

/// Whether every field that was sent is one that the schema names; of one with several forms, the first is the tool's
/// own.
fn describes_all(schema: &Value, sent: &Value) -> bool {
    let own = schema.pointer("/anyOf/0").unwrap_or(schema);
    let named = own["properties"].as_object().unwrap();
    sent.as_object().unwrap().keys().all(|field| named.contains_key(field))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_finds_by_what_a_tool_does_best_first() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for (query, best) in
            [("scratchpad", "scratchpad"), ("to-do list", "todo"), ("which session am I in", "session_info")]
        {
            let search_result = hub
                .ok(&agent, "tool_search", json!({ "query": query }))
                .await
                .structured()
                .unwrap()
                .into_owned();
            assert_eq!(search_result["tools"][0]["name"], best, "{query}");
        }
        let search_result = hub.ok(&agent, "tool_search", json!({ "query": "tool", "limit": 1 })).await;
        assert_eq!(search_result.structured().unwrap().into_owned()["tools"].as_array().unwrap().len(), 1);
        let nothing = hub.ok(&agent, "tool_search", json!({ "query": "submarine" })).await;
        assert!(nothing.text().starts_with("Nothing fits."), "{}", nothing.text());
    })
    .await;
}
