//! Every call leaves two audit entries and its events, attributed, without secrets.

use std::sync::Arc;
use std::time::Duration;

use plexus_proto::{ErrorCode, EventKind};
use plexus_tools::{Call, CallError, ToolOutput, Via};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::hub::{Hub, bounded, call, ready, scripted, scripted_until, upstream_tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_has_two_attributed_audit_entries() {
    bounded(async {
        let hub = Hub::with([
            scripted("fails", |_, _| async { Err(CallError::new(ErrorCode::ToolFailed, "no luck")) }),
            scripted("panics", |_, _| async { panic!("a handler that panics on purpose") }),
            scripted_until("hangs", Duration::from_millis(20), |_, _| std::future::pending()),
        ])
        .await;
        let agents = [hub.agent("ann", &["call:*"]).await, hub.agent("bob", &["call:*"]).await];
        // Tool and arguments as asked, tool as recorded, outcome, whether it ran.
        let cases = [
            ("todo", json!({ "action": "list" }), "todo", "ok", true),
            ("to-do", json!({ "action": "list" }), "to-do", "", false),
            ("list-tools", json!({}), "list_tools", "ok", true),
            ("todo", json!({ "action": "add", "text": "x" }), "todo", "ok", true),
            ("todo", json!({ "action": "remove", "id": 77 }), "todo", "not_found", true),
            ("todo", json!({ "action": "nonsense" }), "todo", "invalid_arguments", false),
            ("todo", json!("not an object"), "todo", "invalid_arguments", false),
            ("nowhere", json!({}), "nowhere", "", false),
            ("tool_call", json!({ "name": "todo", "arguments": { "action": "list" } }), "todo", "ok", true),
            ("tool_call", json!({ "name": "nowhere" }), "nowhere", "", false),
            ("tool_call", json!({ "name": "tool_call" }), "tool_call", "invalid_arguments", false),
            ("fails", json!({}), "fails", "tool_failed", true),
            ("panics", json!({}), "panics", "internal", true),
            ("hangs", json!({}), "hangs", "deadline_exceeded", true),
        ];
        // The tokens of the agents have a record too.
        let mut recorded = {
            hub.store.settle().await.unwrap();
            hub.store.audit_heads().borrow().as_ref().unwrap().n
        };
        for agent in &agents {
            for (requested, arguments, tool, outcome, ran) in &cases {
                let via = if *ran { Via::Mcp } else { Via::Rest };
                let reply = hub
                    .dispatcher
                    .call(agent.clone(), Call { via, ..call(requested, arguments.clone()) })
                    .await;
                let description = format!("{requested} {arguments}: {:?}", reply.result);
                let code = reply.result.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok");
                // The code of an unknown tool has a test of its own.
                assert!(outcome.is_empty() || code == *outcome, "{description}");
                let audited = hub.audited(reply.call_id).await.expect(&description);
                recorded += 2;
                assert_eq!(audited.entries, [recorded - 1, recorded], "{description}");
                assert_eq!((audited.outcome.as_str(), audited.tool.as_str()), (code, *tool), "{description}");
                assert_eq!(audited.actor, agent.subject(), "{description}");
                assert_eq!(audited.token_id, Some(agent.token_id()), "{description}");
                assert_eq!((audited.session_id, audited.via.as_str()), (reply.session_id, via.as_str()));
                let events = hub.events(reply.session_id.unwrap()).await;
                let of_call: Vec<_> =
                    events.iter().filter(|event| event.payload["call_id"] == json!(reply.call_id)).collect();
                let kinds: Vec<_> = of_call.iter().map(|event| event.kind.clone()).collect();
                let expected = [EventKind::ToolStarted, EventKind::ToolCall];
                assert_eq!(kinds, expected[usize::from(!ran)..], "{description}");
                let ended = of_call.last().unwrap();
                assert_eq!(ended.payload["success"], reply.result.is_ok(), "{description}");
                assert_eq!(ended.payload["tool"], *tool, "{description}");
                assert!(of_call.iter().all(|event| event.actor == agent.subject()), "{description}");
            }
        }
        hub.store.settle().await.unwrap();
        let head = hub.store.audit_heads().borrow().clone();
        let report = hub.store.verify_audit(Ok(head), &plexus_store::NoWitness).await.unwrap();
        assert!(report.ok && report.entries == recorded, "{report:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_arguments_and_the_result_are_in_the_record() {
    bounded(async {
        let hub = Hub::with([scripted("echo", |_, args| async move { ready(&args.text.unwrap()) })]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&agent, "echo", json!({ "text": "hello", "password": null })).await;
        let audited = hub.audited(reply.call_id).await.unwrap();
        assert_eq!(audited.arguments, json!({ "text": "hello" }));
        assert_eq!(audited.result, json!({ "text": "hello", "structured": { "text": "hello" } }));
        let events = hub.events(reply.session_id.unwrap()).await;
        assert_eq!(events[1].payload["args"], audited.arguments);
        assert_eq!(events[1].payload["result"], audited.result);
    })
    .await;
}

/// Checks that `secret` is in no file of the database after these calls.
async fn leaves_no_trace(secret: &str, calls: &[(&str, Value)]) {
    let hub = Hub::with([
        scripted("echo", |_, args| async move { ready(&args.text.unwrap_or_default()) }),
        scripted("fails", |_, args| async move {
            Err(CallError::new(ErrorCode::ToolFailed, args.text.unwrap_or_default()))
        }),
    ])
    .await;
    let agent = hub.agent("ann", &["call:*"]).await;
    for (tool, arguments) in calls {
        assert!(arguments.to_string().contains(secret), "the test must send the secret: {arguments}");
        let reply = hub.call(&agent, tool, arguments.clone()).await;
        let audited = hub.audited(reply.call_id).await.expect("recorded all the same");
        let events = hub.events(reply.session_id.unwrap()).await;
        let records = format!("{audited:?} {events:?}");
        assert!(!records.contains(secret), "{tool} {arguments}: {audited:#?}");
    }
    // Neither elsewhere: not in an index, not in a column that is not read above.
    for file in ["plexus.db", "plexus.db-wal"] {
        let bytes = std::fs::read(hub.dir.path().join(file)).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "in {file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_contain_no_secrets() {
    bounded(async {
        let secret = ["sk", "ant1234567890abcdefghij"].join("-");
        leaves_no_trace(
            &secret,
            &[
                ("echo", json!({ "text": secret, "password": secret })),
                ("echo", json!({ "text": format!("before {secret} after") })),
                ("fails", json!({ "text": format!("cannot use {secret}") })),
                // Refused ones: unknown field, wrong type, no object, unknown tool, through tool_call.
                ("echo", json!({ "api_key": secret })),
                ("echo", json!({ "text": [secret] })),
                ("echo", json!(secret)),
                ("nowhere", json!({ "text": secret })),
                ("tool_call", json!({ "name": "echo", "arguments": { "text": secret } })),
                ("tool_call", json!({ "name": "nowhere", "arguments": { "a": { "b": [secret] } } })),
                ("todo", json!({ "action": secret })),
            ],
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_under_a_secret_name_is_in_no_record_whatever_it_looks_like() {
    bounded(async {
        let secret = "Tr0ub4dor";
        leaves_no_trace(
            secret,
            &[
                ("echo", json!({ "password": secret })),
                ("nowhere", json!({ "password": secret, "deep": [{ "client_secret": { "a": secret } }] })),
                ("echo", json!({ "text": "x", "token": secret })),
                // Of the wrong type, which the error repeats.
                ("echo", json!({ "password": [secret] })),
            ],
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrecorded_external_call_is_not_reported_as_undone() {
    bounded(async {
        for key in [None, Some("k".to_owned())] {
            let (ran, go) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
            let (inside, let_go) = (ran.clone(), go.clone());
            let hub = Hub::with([upstream_tool(move || {
                let (inside, let_go) = (inside.clone(), let_go.clone());
                async move {
                    inside.add_permits(1);
                    let_go.cancelled().await;
                    Ok(ToolOutput::new("done", &json!({})))
                }
            })])
            .await;
            let agent = hub.agent("ann", &["call:*"]).await;
            let requested = Call { idempotency_key: key, ..call("mcp__far__write", json!({})) };
            let without_database = async {
                let _ran = ran.acquire().await.unwrap();
                hub.supervisor.shutdown(Duration::from_millis(50)).await;
                go.cancel();
            };
            let (reply, ()) = tokio::join!(hub.dispatcher.call(agent, requested), without_database);
            let error = reply.result.unwrap_err();
            assert_eq!(error.code, ErrorCode::Internal, "{error:?}");
            assert!(error.text().contains("The tool has run"), "{error:?}");
            assert!(!error.text().contains("Nothing was"), "{error:?}");
        }
    })
    .await;
}
