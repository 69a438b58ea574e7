//! Findings of a review, each a test that fails today.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_proto::ErrorCode;
use plexus_tools::{Access, CallError, Outcome, Placement, Tool, ToolOutput, ToolSpec, UpstreamTool};
use serde_json::{Value, json};

use crate::hub::{Hub, bounded, keyed};

fn far(
    schema: Value,
    run: impl Fn() -> BoxFuture<'static, Result<ToolOutput, CallError>> + Send + Sync + 'static,
) -> Tool {
    let placement = UpstreamTool {
        server: "far".to_owned(),
        tool: "write".to_owned(),
        groups: vec![],
        bare: false,
        definition: serde_json::Map::new(),
    };
    let spec = ToolSpec {
        name: "mcp__far__write".into(),
        input_schema: schema,
        placement: Placement::Upstream(Arc::new(placement)),
        ..ToolSpec::hub("mcp__far__write", "Write", "Writes far away.", Access::ADD)
    };
    let run = move |_, _| -> BoxFuture<'static, _> {
        let done = run();
        Box::pin(async move { done.await.map(Outcome::Ready) })
    };
    Tool::upstream(spec, Arc::new(run))
}

/// As on a full disk: from now on the database takes no record.
fn refuse_records(hub: &Hub) {
    let db = hub.dir.path().join("plexus.db");
    assert!(db.exists());
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); \
        c.execute(\"CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT,'full'); END\"); c.commit()";
    let done = std::process::Command::new("python3").args(["-c", script, db.to_str().unwrap()]).status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_tool_that_ran_elsewhere_nobody_says_that_nothing_was_changed() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let tool = far(json!({ "type": "object" }), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(ToolOutput::new("done", &json!({})))
            })
        });
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "session_info", json!({})).await;
        refuse_records(&hub);
        let error = hub.err(&agent, "mcp__far__write", json!({})).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        eprintln!("told: {:?} {}", error.code, error.text());
        assert!(!error.text().contains("Nothing was changed"), "{}", error.text());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_invalid_params_after_its_work_does_not_do_it_twice_under_a_key() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let tool = far(json!({ "type": "object" }), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            // What supervision::call makes of -32602, and of a 503.
            Box::pin(async { Err(CallError::new(ErrorCode::InvalidArguments, "far does not accept the arguments: Output validation error")) })
        });
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for _ in 0..2 {
            let _ = hub.dispatcher.call(agent.clone(), keyed("mcp__far__write", json!({}), "k")).await;
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

fn schema_tool(schema: Value) -> Tool {
    far(schema, || Box::pin(async { Ok(ToolOutput::new("done", &json!({}))) }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_itself_does_not_bring_the_hub_down() {
    bounded(async {
        for schema in [
            json!({ "type": "object", "$ref": "#" }),
            json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
            json!({ "type": "object", "not": { "$ref": "#" } }),
            json!({ "type": "object", "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } } }),
            json!({ "type": "object", "$dynamicRef": "#" }),
            json!({ "type": "object", "$ref": "#/properties/x", "properties": { "x": { "$ref": "#" } } }),
            json!({ "type": "object", "if": { "$ref": "#" }, "then": {} }),
            json!({ "type": "object", "unevaluatedProperties": false, "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "$ref": "#" }] } } }),
        ] {
            eprintln!("{schema}");
            let hub = Hub::with([schema_tool(schema)]).await;
            let agent = hub.agent("ann", &["call:*"]).await;
            let _ = hub.call(&agent, "mcp__far__write", json!({ "x": { "x": 1 } })).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_doubles_with_each_level_of_the_arguments_does_not_hold_a_thread() {
    for what in ["allOf", "anyOf", "oneOf"] {
        let node = json!({ "type": "object", what: [
            { "properties": { "x": { "$ref": "#/$defs/n" } } },
            { "properties": { "x": { "$ref": "#/$defs/n" } } },
        ] });
        let schema = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } }, "$defs": { "n": node } });
        let hub = Hub::with([schema_tool(schema)]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for depth in [10, 14, 18, 20, 22] {
            let arguments = (0..depth).fold(json!({ "x": 1 }), |inner, _| json!({ "x": inner }));
            let began = std::time::Instant::now();
            let _ = hub.call(&agent, "mcp__far__write", arguments).await;
            eprintln!("{what} {depth}: {:?}", began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(5));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_look_like_credentials_cost_no_more_the_more_there_are() {
    let hub = Hub::start().await;
    let agent = hub.agent("ann", &["call:*"]).await;
    for count in [1_000, 2_000, 4_000, 8_000] {
        let fields: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("ghp_{n:036}"), Value::from(1))).collect();
        let began = std::time::Instant::now();
        let bytes = Value::Object(fields.clone()).to_string().len();
        let _ = hub.call(&agent, "no_such_tool", Value::Object(fields)).await;
        eprintln!("{count} names, {bytes} bytes: {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_nobody_knows_are_named_up_to_a_bound() {
    let hub = Hub::start().await;
    let agent = hub.agent("ann", &["call:*"]).await;
    let mut fields: serde_json::Map<String, Value> =
        (0..50_000).map(|n| (format!("f{n}"), Value::from(1))).collect();
    fields.insert("action".to_owned(), "list".into());
    let began = std::time::Instant::now();
    let bytes = Value::Object(fields.clone()).to_string().len();
    let error = hub.err(&agent, "todo", Value::Object(fields)).await;
    let (text, details) = (error.text().len(), error.details.to_string().len());
    eprintln!("{bytes} bytes in, {text} + {details} bytes out, {:?}", began.elapsed());
    assert!(text + details < 100_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_nobody_knows_do_not_fill_the_memory() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    let properties: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("property_{n}"), json!({ "type": "string" }))).collect();
    let schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let hub = Hub::with([schema_tool(schema)]).await;
    let agent = hub.agent("ann", &["call:*"]).await;
    let fields: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("{n}"), Value::from(1))).collect();
    let (bytes, before) = (Value::Object(fields.clone()).to_string().len(), peak());
    let began = std::time::Instant::now();
    let _ = hub.err(&agent, "mcp__far__write", Value::Object(fields)).await;
    let grown = peak() - before;
    eprintln!("{bytes} bytes in: {grown} MiB more, {:?}", began.elapsed());
    assert!(grown < 50, "{grown} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_another_hub_took_first_is_not_said_to_be_a_lost_database() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let tool = far(json!({ "type": "object" }), move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(ToolOutput::new("done", &json!({})))
            })
        });
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.ok(&agent, "session_info", json!({})).await;
        let both = [hub.dispatcher.clone(), hub.second_dispatcher()];
        let mut wrong = Vec::new();
        for n in 0..50 {
            let mut calls = tokio::task::JoinSet::new();
            for dispatcher in both.clone() {
                let agent = agent.clone();
                calls.spawn(async move {
                    dispatcher.call(agent, keyed("mcp__far__write", json!({}), &format!("k{n}"))).await
                });
            }
            for reply in calls.join_all().await {
                if let Err(error) = reply.result {
                    wrong.push((error.code, error.text()));
                }
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 50);
        eprintln!("{} were not first, for instance {:?}", wrong.len(), wrong.first());
        assert!(wrong.iter().all(|(_, text)| !text.contains("database")), "{wrong:?}");
    })
    .await;
}
