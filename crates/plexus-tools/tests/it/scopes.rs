//! Narrow, never widen: what a caller may not use is as if it did not exist.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_proto::api::AuditCall;
use plexus_tools::native;
use serde_json::{Value, json};

use crate::hub::{Hub, bounded, ready, scripted};

/// The reply and the record of a call, without the parts that differ between any two calls.
async fn answer(hub: &Hub, agent: &Arc<Principal>, tool: &str, arguments: Value) -> (String, Value) {
    let reply = hub.call(agent, tool, arguments).await;
    let audited: AuditCall = hub.audited(reply.call_id).await.unwrap();
    let mut shape = serde_json::to_value(&audited).unwrap();
    shape["entries"] = json!(audited.entries.len());
    shape["call_id"] = Value::Null;
    (serde_json::to_string(&reply.result.unwrap_err()).unwrap(), shape)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_tool_gets_the_error_of_a_missing_one() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:tool_*", "call:list_tools"]).await;
        let cases = [
            ("todo", json!({ "action": "list" })),
            ("todo", json!({ "action": "nonsense" })),
            ("todo", json!(["not an object"])),
            ("todo", Value::Null),
            ("scratchpad", json!({ "action": "list" })),
            ("scratch-pad", json!({})),
            ("session-info", json!({})),
            ("tod", json!({})),
            ("Todo", json!({})),
            ("tool_call", json!({ "name": "todo", "arguments": { "action": "list" } })),
            ("tool_call", json!({ "name": "todo", "arguments": { "action": "nonsense" } })),
            ("tool_call", json!({ "name": "todo" })),
            ("tool_call", json!({ "name": "session-info" })),
        ];
        for (tool, arguments) in cases {
            let hidden = answer(&hub, &agent, tool, arguments.clone()).await;
            hub.dispatcher.registry().remove(&["todo", "scratchpad", "session_info"]);
            let absent = answer(&hub, &agent, tool, arguments.clone()).await;
            hub.dispatcher.registry().add(native::tools());
            assert_eq!(hidden, absent, "{tool} {arguments}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invisible_and_missing_tools_get_the_same_error() {
    bounded(async {
        let hub = Hub::with([scripted("qqqq_one", |_, _| async { ready("") })]).await;
        let agent = hub.agent("ann", &["call:tool_call"]).await;
        for through in [false, true] {
            let ask = async |name: &str| {
                if through {
                    let arguments = json!({ "name": name, "arguments": { "text": "x" } });
                    answer(&hub, &agent, "tool_call", arguments).await
                } else {
                    answer(&hub, &agent, name, json!({ "text": "x" })).await
                }
            };
            let (hidden, hidden_audit) = ask("qqqq_one").await;
            let (absent, absent_audit) = ask("qqqq_two").await;
            assert_eq!(hidden.replace("qqqq_one", "qqqq_two"), absent);
            let renamed = hidden_audit.to_string().replace("qqqq_one", "qqqq_two");
            assert_eq!(renamed, absent_audit.to_string());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_tool_is_not_listed() {
    bounded(async {
        let hub = Hub::with([scripted("purple_elephant", |_, _| async { ready("") })]).await;
        let agent = hub.agent("ann", &["call:tool_*", "call:list_tools"]).await;
        let admin = hub.admin();
        let requests = [
            ("list_tools", json!({})),
            ("list_tools", json!({ "prefix": "purple", "schemas": true })),
            ("tool_search", json!({ "query": "purple elephant" })),
            ("tool_search", json!({ "query": "does what a test wrote down scripted", "limit": 100 })),
        ];
        for (tool, arguments) in requests {
            // Those who may see it do, so the request is one that would show it.
            let output = hub.ok(&admin, tool, arguments.clone()).await;
            assert!(format!("{output:?}").contains("purple_elephant"), "{tool} {arguments}");
            let hidden = hub.ok(&agent, tool, arguments.clone()).await;
            assert!(!format!("{hidden:?}").contains("purple"), "{tool} {arguments}: {hidden:?}");
            let through = json!({ "name": tool, "arguments": arguments });
            assert_eq!(hub.ok(&agent, "tool_call", through).await, hidden);
        }
        let hint = hub.err(&agent, "purple_elephan", json!({})).await;
        assert!(!hint.text().contains("purple_elephant"), "{hint:?}");
        let visible = hub.dispatcher.registry().visible_to(&agent);
        let names: Vec<_> = visible.tools().map(|tool| &*tool.spec().name).collect();
        assert_eq!(names, ["list_tools", "tool_call", "tool_search"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_one_action_sees_a_tool_with_that_action_only() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:todo.list", "call:list_tools", "call:tool_search"]).await;
        let visible = hub.dispatcher.registry().visible_to(&agent);
        let todo = visible.tools().find(|tool| tool.spec().name == "todo").unwrap().spec().clone();
        let options = &todo.input_schema["properties"]["action"]["oneOf"];
        assert_eq!(options.as_array().unwrap().len(), 1, "{options}");
        assert_eq!(options[0]["const"], "list");
        assert!(todo.access.annotations.read_only_hint, "all that is left only reads");
        for (tool, arguments) in [
            ("list_tools", json!({ "prefix": "todo", "schemas": true })),
            ("tool_search", json!({ "query": "todo" })),
        ] {
            let listed = hub.ok(&agent, tool, arguments).await.structured().unwrap().into_owned();
            assert_eq!(listed["tools"][0]["actions"], json!(["list"]));
            assert_eq!(listed["tools"][0]["input_schema"], todo.input_schema);
        }
        hub.ok(&agent, "todo", json!({ "action": "list" })).await;

        // Forbidden and nonsense are one kind of mistake.
        let (forbidden, forbidden_audit) =
            answer(&hub, &agent, "todo", json!({ "action": "add", "text": "x" })).await;
        let (nonsense, nonsense_audit) =
            answer(&hub, &agent, "todo", json!({ "action": "zzz", "text": "x" })).await;
        assert_eq!(forbidden.replace("\\\"add\\\"", "\\\"zzz\\\""), nonsense);
        assert_eq!(forbidden_audit["outcome"], nonsense_audit["outcome"]);
        assert_eq!(forbidden_audit["outcome"], "invalid_arguments");
        let error: Value = serde_json::from_str(&forbidden).unwrap();
        assert_eq!(error["details"]["problems"][0]["expected"], json!(["list"]));
        assert_eq!(hub.ok(&agent, "todo", json!({ "action": "list" })).await.text(), "The list is empty.");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_tool_is_missing_from_the_next_call() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let mut versions = hub.dispatcher.registry().versions();
        versions.borrow_and_update();
        hub.ok(&agent, "todo", json!({ "action": "list" })).await;
        hub.dispatcher.registry().remove(&["todo"]);
        assert!(versions.has_changed().unwrap(), "clients must hear of it");
        let error = hub.err(&agent, "todo", json!({ "action": "list" })).await;
        assert!(error.message.contains("Unknown tool: todo"), "{error:?}");
        hub.dispatcher.registry().add(native::tools());
        hub.ok(&agent, "todo", json!({ "action": "list" })).await;
    })
    .await;
}
