//! Invalid arguments: nothing runs, and the error contains the path, the expectation and the value.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, Outcome, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::hub::{Hub, Output, bounded, ready, spec, upstream_tool_with_schema};

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Speed {
    Slow,
    VeryFast,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only checked")]
struct Address {
    city: String,
    street: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only checked")]
struct Args {
    count: i64,
    #[schemars(length(max = 5))]
    label: Option<String>,
    speed: Option<Speed>,
    place: Option<Address>,
    tags: Option<Vec<String>>,
}

struct Shape(Arc<AtomicUsize>);

impl TypedTool for Shape {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("shape", Duration::from_secs(5))
    }

    async fn run(&self, _: ToolContext, _: Args) -> Result<Outcome, CallError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        ready("ran")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_mistake_is_named_with_path_expectation_and_nearest() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let hub = Hub::with([Tool::typed(Shape(runs.clone()))]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let fields = json!(["count", "label", "place", "speed", "tags"]);
        let speeds = json!(["slow", "very_fast"]);
        // Arguments, then path, expected, got and nearest of the one problem.
        let cases = [
            (json!({ "count": "three" }), "/count", json!("integer"), json!("\"three\""), Value::Null),
            (json!({ "count": 1.5 }), "/count", json!("integer"), json!("1.5"), Value::Null),
            (json!({ "count": null }), "/count", json!("integer"), json!("null"), Value::Null),
            (json!({}), "/count", json!("a value"), Value::Null, Value::Null),
            (json!({ "label": "x" }), "/count", json!("a value"), Value::Null, Value::Null),
            (json!({ "count": 1, "lable": "x" }), "/lable", fields.clone(), Value::Null, json!("label")),
            (json!({ "count": 1, "zzz": "x" }), "/zzz", fields.clone(), Value::Null, Value::Null),
            (
                json!({ "count": 1, "speed": "very-fast" }),
                "/speed",
                speeds.clone(),
                json!("\"very-fast\""),
                json!("very_fast"),
            ),
            (json!({ "count": 1, "speed": "purple" }), "/speed", speeds, json!("\"purple\""), Value::Null),
            (
                json!({ "count": 1, "label": "too long" }),
                "/label",
                Value::Null,
                json!("\"too long\""),
                Value::Null,
            ),
            (json!({ "count": 1, "tags": ["a", 2] }), "/tags/1", json!("string"), json!("2"), Value::Null),
            (json!({ "count": 1, "place": {} }), "/place/city", json!("a value"), Value::Null, Value::Null),
            (
                json!({ "count": 1, "place": { "city": "x", "stret": "y" } }),
                "/place/stret",
                json!(["city", "street"]),
                Value::Null,
                json!("street"),
            ),
        ];
        for (arguments, path, expected, got, nearest) in cases {
            let error = hub.err(&agent, "shape", arguments.clone()).await;
            assert_eq!(error.code, ErrorCode::InvalidArguments, "{arguments}");
            let problems = error.details["problems"].as_array().unwrap();
            assert_eq!(problems.len(), 1, "{arguments}: {problems:#?}");
            let mut known_fields = problems[0]["expected"].clone();
            if let Some(known_fields) = known_fields.as_array_mut() {
                known_fields.sort_by_key(Value::to_string);
            }
            let problem = (
                problems[0]["path"].as_str().unwrap(),
                &known_fields,
                &problems[0]["got"],
                &problems[0]["nearest"],
            );
            assert_eq!(problem, (path, &expected, &got, &nearest), "{arguments}: {problems:#?}");
            // The text for the model has the same in words.
            assert!(error.message.starts_with("Invalid arguments for shape:\n"), "{}", error.message);
            assert!(error.message.contains(&format!("- {path}: ")), "{}", error.message);
            if let Some(nearest) = nearest.as_str() {
                assert!(error.message.contains(&format!("did you mean {nearest:?}?")), "{}", error.message);
            }
            assert!(error.text().contains("Nothing was run."), "{}", error.text());
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_argument_problems_are_reported_at_once() {
    bounded(async {
        let hub = Hub::with([Tool::typed(Shape(Arc::default()))]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let arguments = json!({ "count": "x", "speed": "slo", "zzz": 1, "place": { "street": 5 } });
        let error = hub.err(&agent, "shape", arguments).await;
        let mut paths: Vec<_> =
            error.details["problems"].as_array().unwrap().iter().map(|p| &p["path"]).collect();
        paths.sort_by_key(|path| path.to_string());
        assert_eq!(json!(paths), json!(["/count", "/place/city", "/place/street", "/speed", "/zzz"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_must_be_an_object_or_absent() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for arguments in [json!([]), json!("x"), json!(7), json!(true)] {
            let error = hub.err(&agent, "list_tools", arguments.clone()).await;
            assert_eq!(error.code, ErrorCode::InvalidArguments, "{arguments}");
            assert_eq!(error.details["problems"][0]["path"], "", "{arguments}");
            assert!(error.message.contains("must be a JSON object"), "{}", error.message);
        }
        hub.ok(&agent, "list_tools", Value::Null).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_for_an_optional_field_is_as_leaving_it_out() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let hub = Hub::with([Tool::typed(Shape(runs.clone()))]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let arguments = json!({ "count": 1, "label": null, "speed": null, "place": null, "tags": null });
        hub.ok(&agent, "shape", arguments).await;
        hub.ok(&agent, "todo", json!({ "action": "list", "id": null, "session": null })).await;
        hub.ok(&agent, "tool_call", json!({ "name": "list_tools", "arguments": null })).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

/// The schema shows a field inside an object without null too, so null must be taken there as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_for_an_optional_field_inside_an_object_is_as_leaving_it_out() {
    bounded(async {
        let hub = Hub::with([Tool::typed(Shape(Arc::default()))]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "shape", json!({ "count": 1, "place": { "city": "x", "street": null } })).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_wrong_value_is_not_repeated_in_full() {
    bounded(async {
        let hub = Hub::with([Tool::typed(Shape(Arc::default()))]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let long = "ü".repeat(100_000);
        for arguments in [
            json!({ "count": long }),
            json!({ "count": 1, long.as_str(): 1 }),
            json!({ "count": 1, "speed": long }),
        ] {
            let error = hub.err(&agent, "shape", arguments).await;
            assert!(serde_json::to_string(&error).unwrap().len() < 2_000);
        }
        let error = hub.err(&agent, &long, json!({})).await;
        assert!(serde_json::to_string(&error).unwrap().len() < 2_000);
    })
    .await;
}

/// Each unknown field is answered with all that are known, so these must not be written down for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_fields_nobody_knows_a_few_are_named() {
    bounded(async {
        let names = |word: &str, count: usize| (0..count).map(|n| format!("{word}_{n}")).collect::<Vec<_>>();
        let known_fields: Value =
            names("known", 100).into_iter().map(|name| (name, json!({ "type": "string" }))).collect();
        let schema = json!({ "type": "object", "properties": known_fields, "additionalProperties": false });
        let hub =
            Hub::with([upstream_tool_with_schema(schema, || async { Ok(ToolOutput::new("ran", &())) })])
                .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let unknown: Value = names("unknown", 20_000).into_iter().map(|name| (name, json!(1))).collect();
        let error = hub.err(&agent, "mcp__far__write", unknown).await;
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(serde_json::to_string(&error).unwrap().len() < 100_000);
    })
    .await;
}

/// Two branches that lead back to where they are: as many turns as 2 to the depth of the arguments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_doubles_with_each_level_of_the_arguments_holds_nobody_up() {
    bounded(async {
        for branches in ["allOf", "anyOf", "oneOf"] {
            let branch = json!({ "properties": { "x": { "$ref": "#/$defs/node" } } });
            let schema = json!({
                "type": "object",
                "properties": { "x": { "$ref": "#/$defs/node" } },
                "$defs": { "node": { "type": "object", branches: [branch, branch] } },
            });
            let hub =
                Hub::with([upstream_tool_with_schema(schema, || async { Ok(ToolOutput::new("ran", &())) })])
                    .await;
            let agent = hub.agent("ann", &["call:*"]).await;
            let arguments = (0..40).fold(json!({}), |inner, _| json!({ "x": inner }));
            hub.ok(&agent, "mcp__far__write", arguments).await;
        }
    })
    .await;
}
