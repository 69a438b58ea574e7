//! The end of a call on a node is recorded once, even if the hub or the node dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_store::NodeCallState;
use plexus_tools::{Call, CallError, ToolContext, ToolOutput};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{TestNodes, node, row, rows, run, run_on, shell, start_call};
use crate::hub::{Hub, bounded, call, keyed};

fn done(text: &str) -> ToolOutput {
    ToolOutput::new(text, &json!({ "exit_code": 0 }))
}

#[tokio::test]
async fn node_call_has_a_row_until_its_end_is_committed() {
    bounded(async {
        let (entered, release) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let (inside, go) = (entered.clone(), release.clone());
        let tool = shell(move |context: ToolContext, arguments| {
            let (inside, go) = (inside.clone(), go.clone());
            async move {
                let frame = context.to_node(&arguments).unwrap();
                assert!(frame.keep && frame.idempotency_key.as_deref() == Some("k"));
                assert_eq!(frame.arguments.get(), r#"{"action":"run","command":"x"}"#);
                assert!((1..=30_000).contains(&frame.deadline_ms));
                inside.add_permits(1);
                go.cancelled().await;
                Ok(done("x"))
            }
        });
        let hub = Hub::with([tool]).await;
        let machines = TestNodes::of([node("nas", &[])]);
        hub.dispatcher.set_nodes(machines.clone());
        let (call_id, reply) = start_call(&hub, keyed("shell", run_on("nas"), "k"));
        entered.acquire().await.unwrap().forget();
        let row = rows(&hub).await.pop().expect("there is a row");
        assert_eq!((row.call_id, row.state, row.tool.as_str()), (call_id, NodeCallState::Sent, "shell"));
        assert_eq!(row.arguments, r#"{"action":"run","command":"x"}"#);
        assert_eq!(row.idempotency.unwrap().0, "k");
        assert!(machines.settled().is_empty());
        release.cancel();
        reply.await.unwrap().result.unwrap();
        assert!(rows(&hub).await.is_empty());
        assert_eq!(machines.settled(), [(row.node_id, call_id)]);
        assert_eq!(hub.audited(call_id).await.unwrap().outcome, "ok");
    })
    .await;
}

#[tokio::test]
async fn what_changes_nothing_leaves_no_row() {
    bounded(async {
        let tool = shell(|context: ToolContext, arguments| async move {
            assert!(!context.to_node(&arguments).unwrap().keep);
            let rows = context.store.read().await.unwrap().node_calls(None).await.unwrap();
            assert!(rows.is_empty());
            Ok(done("none"))
        });
        let hub = Hub::with([tool]).await;
        let machines = TestNodes::of([node("nas", &[])]);
        hub.dispatcher.set_nodes(machines.clone());
        hub.ok(&hub.admin(), "shell", json!({ "action": "list", "node": "nas" })).await;
        let again = keyed("shell", json!({ "action": "list", "node": "nas" }), "k");
        hub.dispatcher.call(hub.admin(), again).await.result.unwrap();
        assert!(machines.settled().is_empty());
    })
    .await;
}

#[tokio::test]
async fn key_replays_the_result_of_a_node_call() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let tool = shell(move |_, arguments| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match arguments["command"].as_str() {
                    Some("fails") => {
                        Err(CallError::new(ErrorCode::Interrupted, "it was running when the node stopped"))
                    }
                    Some("never ran") if run == 0 => {
                        Err(CallError::new(ErrorCode::Unavailable, "gone").before_it_ran())
                    }
                    _ => Ok(done(&run.to_string())),
                }
            }
        });
        let hub = Hub::with([tool]).await;
        let machines = TestNodes::of([node("local", &[])]);
        hub.dispatcher.set_nodes(machines.clone());
        let admin = hub.admin();
        let error = hub.dispatcher.call(admin.clone(), keyed("shell", run("never ran"), "0")).await.result;
        assert_eq!(error.unwrap_err().code, ErrorCode::Unavailable);
        for n in 0..2 {
            let reply = hub.dispatcher.call(admin.clone(), keyed("shell", run("never ran"), "0")).await;
            assert_eq!((reply.replayed, reply.result.unwrap().text().as_ref()), (n == 1, "1"));
        }
        for n in 0..2 {
            let reply = hub.dispatcher.call(admin.clone(), keyed("shell", run("fails"), "1")).await;
            assert_eq!((reply.replayed, reply.result.unwrap_err().code), (n == 1, ErrorCode::Interrupted));
        }
        // A retry gets the first result also while the machine is away.
        machines.change("local", |local| local.online = false);
        let reply = hub.dispatcher.call(admin.clone(), keyed("shell", run("never ran"), "0")).await;
        assert!(reply.replayed);
        let other = hub.dispatcher.call(admin, keyed("shell", run("other"), "0")).await.result.unwrap_err();
        assert_eq!(other.code, ErrorCode::IdempotencyConflict);
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    })
    .await;
}

/// A hub that stopped while a call was on its machine, and started again.
async fn left_behind(key: &str) -> (Hub, plexus_proto::CallId, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let tool = shell(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err(CallError::new(ErrorCode::Unavailable, "the hub stops").while_still_running()) }
    });
    let hub = Hub::with([tool]).await;
    hub.dispatcher.set_nodes(TestNodes::of([node("local", &[])]));
    let reply = hub.dispatcher.call(hub.admin(), keyed("shell", run("x"), key)).await;
    assert_eq!(reply.result.unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "unfinished", "it has not ended");
    let hub = hub.restarted().await;
    hub.dispatcher.set_nodes(TestNodes::of([node("local", &[])]));
    (hub, reply.call_id, runs)
}

#[tokio::test]
async fn the_result_of_a_call_whose_hub_is_gone_is_recorded_once_and_is_under_its_key() {
    bounded(async {
        let (hub, call_id, runs) = left_behind("k").await;
        let row = rows(&hub).await.pop().unwrap();
        let session = row.session_id;
        assert!(hub.dispatcher.conclude(row.clone(), Ok(done("late"))).await.unwrap());
        assert!(!hub.dispatcher.conclude(row, Ok(done("again"))).await.unwrap(), "it has ended");
        assert!(rows(&hub).await.is_empty());
        let audited = hub.audited(call_id).await.unwrap();
        assert_eq!((audited.outcome.as_str(), audited.via.as_str()), ("ok", "rest"));
        let events = hub.events(session).await;
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["tool_started", "tool_call"]);
        let end = &events[1].payload;
        assert_eq!((&end["call_id"], &end["success"]), (&json!(call_id), &json!(true)));
        assert_eq!((&end["args"], &end["result"]["text"]), (&run("x"), &json!("late")));
        let reply = hub.dispatcher.call(hub.admin(), keyed("shell", run("x"), "k")).await;
        assert_eq!((reply.replayed, reply.result.unwrap().text().as_ref()), (true, "late"));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn a_retry_waits_for_the_end_of_a_call_that_another_hub_sent() {
    bounded(async {
        let (hub, _, runs) = left_behind("k").await;
        let row = rows(&hub).await.pop().unwrap();
        let mut retry = Box::pin(hub.dispatcher.call(hub.admin(), keyed("shell", run("x"), "k")));
        assert!(futures_util::poll!(&mut retry).is_pending());
        let dispatcher = hub.dispatcher.clone();
        let conclude = async { dispatcher.conclude(row, Ok(done("late"))).await.unwrap() };
        let (reply, concluded) = tokio::join!(retry, conclude);
        assert!(concluded && reply.replayed);
        assert_eq!(reply.result.unwrap().text(), "late");
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn key_of_a_call_that_never_ran_is_released() {
    bounded(async {
        let (hub, call_id, runs) = left_behind("k").await;
        let row = rows(&hub).await.pop().unwrap();
        let error = CallError::new(ErrorCode::DeadlineExceeded, "too late").before_it_ran();
        assert!(hub.dispatcher.conclude(row, Err(error)).await.unwrap());
        assert_eq!(hub.audited(call_id).await.unwrap().outcome, "deadline_exceeded");
        let reply = hub.dispatcher.call(hub.admin(), keyed("shell", run("x"), "k")).await;
        assert!(!reply.replayed);
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    })
    .await;
}

/// A tool whose calls end only when they are cancelled; the result describes how far it came.
fn endless(sent: bool) -> plexus_tools::Tool {
    shell(move |context: ToolContext, _| async move {
        context.cancel.cancelled().await;
        let error = CallError::new(ErrorCode::Cancelled, "given up");
        Err(if sent { error } else { error.before_it_ran() })
    })
}

#[tokio::test]
async fn cancelled_node_call_reports_its_state_and_notifies_the_node() {
    for sent in [true, false] {
        bounded(async {
            let hub = Hub::with([endless(sent)]).await;
            let machines = TestNodes::of([node("nas", &[])]);
            hub.dispatcher.set_nodes(machines.clone());
            let request = keyed("shell", run_on("nas"), "k");
            let cancel = request.cancel.clone();
            let (_, reply) = start_call(&hub, request);
            row(&hub).await;
            cancel.cancel();
            let error = reply.await.unwrap().result.unwrap_err();
            assert_eq!(error.code, ErrorCode::Cancelled);
            let hint = error.hint.unwrap();
            assert_eq!(hint == "Nothing was run.", !sent, "{hint}");
            assert!(rows(&hub).await.is_empty());
            assert_eq!(machines.settled().len(), 1);
            let mut reader = hub.store.read().await.unwrap();
            let stored = reader.idempotent_result(hub.admin().subject(), "k").await.unwrap();
            assert_eq!(stored.is_some(), sent, "a key is free again where nothing was run");
        })
        .await;
    }
}

#[tokio::test]
async fn call_respects_the_time_limit_in_its_arguments() {
    bounded(async {
        let hub = Hub::with([endless(true)]).await;
        let machines = TestNodes::of([node("nas", &[])]);
        hub.dispatcher.set_nodes(machines.clone());
        let arguments = json!({ "action": "run", "node": "nas", "timeout_seconds": 1 });
        let began = std::time::Instant::now();
        let reply = hub.call(&hub.admin(), "shell", arguments.clone()).await;
        assert!(began.elapsed() >= Duration::from_secs(1));
        let error = reply.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::DeadlineExceeded);
        assert_eq!(error.message, "shell did not finish within 1 s on nas");
        assert!(error.hint.unwrap().contains("may still be running it"));
        assert_eq!(machines.settled(), [(machines.all.lock().unwrap()[0].id, reply.call_id)]);
        // Whoever waits no longer than that says so.
        let long = json!({ "action": "run", "node": "nas", "timeout_seconds": 600 });
        let request = Call { deadline: Some(Duration::from_millis(50)), ..call("shell", long) };
        let error = hub.dispatcher.call(hub.admin(), request).await.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::DeadlineExceeded);
    })
    .await;
}
