//! While a call runs: deadline, cancellation, panic, limits, a caller that leaves, progress.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_store::TodoStatus;
use plexus_tools::{Call, Outcome, Progress, ToolOutput};
use serde_json::json;
use tokio::task::JoinSet;

use crate::hub::{BlockingTool, CALLS, Hub, OUTPUT, bounded, call, output, ready, scripted, scripted_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_ends_at_its_deadline_and_its_handler_is_cancelled() {
    bounded(async {
        let (cancelled_sender, cancelled_receiver) = tokio::sync::watch::channel(false);
        let cancelled_sender = Arc::new(cancelled_sender);
        let hub = Hub::with([scripted_until("hangs", Duration::from_millis(20), move |context, _| {
            // What the handler started goes on after it; the token reaches it.
            let (cancelled_sender, cancel) = (cancelled_sender.clone(), context.cancel.clone());
            let mut helpers = JoinSet::new();
            helpers.spawn(async move {
                cancel.cancelled().await;
                cancelled_sender.send_replace(true);
            });
            helpers.detach_all();
            std::future::pending()
        })])
        .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let call_request = call("hangs", json!({}));
        let cancel = call_request.cancel.clone();
        let reply = hub.dispatcher.call(agent.clone(), call_request).await;
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::DeadlineExceeded);
        cancelled_receiver.clone().wait_for(|cancelled_sender| *cancelled_sender).await.unwrap();
        assert!(!cancel.is_cancelled(), "the caller's own token is the caller's");
        assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "deadline_exceeded");
        hub.ok(&agent, "list_tools", json!({})).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_call_ends_and_is_recorded() {
    bounded(async {
        let (blocking, tool) = BlockingTool::tool("waits");
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let call_request = call("waits", json!({}));
        let cancel = call_request.cancel.clone();
        let (reply, ()) = tokio::join!(hub.dispatcher.call(agent.clone(), call_request), async {
            blocking.wait_for_calls(1).await;
            cancel.cancel();
        });
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::Cancelled);
        let audited = hub.audited(reply.call_id).await.unwrap();
        assert_eq!((audited.outcome.as_str(), audited.entries.len()), ("cancelled", 2));
        assert_eq!(hub.dispatcher.in_flight(), 0);
        hub.ok(&agent, "list_tools", json!({})).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_handler_is_an_error_of_that_call_only() {
    bounded(async {
        let hub =
            Hub::with([scripted("panics", |_, _| async { panic!("a handler that panics on purpose") })])
                .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&agent, "panics", json!({})).await;
        let error = reply.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!error.text().contains("on purpose"), "what went wrong inside is for the log: {error:?}");
        assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "internal");
        assert_eq!(hub.dispatcher.in_flight(), 0);
        hub.ok(&agent, "todo", json!({ "action": "add", "text": "x" })).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_transaction_is_an_error_of_that_call_only() {
    bounded(async {
        let hub = Hub::with([scripted("panics", |context, _| async move {
            Ok(Outcome::transact(move |conn| {
                Box::pin(async move {
                    conn.add_todo(context.session_id, "undone", TodoStatus::Pending, context.clock.now())
                        .await?;
                    panic!("a transaction that panics on purpose")
                })
            }))
        })])
        .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let reply = hub.call(&agent, "panics", json!({})).await;
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::Internal);
        let after = hub.ok(&agent, "todo", json!({ "action": "add", "text": "x" })).await;
        assert_eq!(after.structured().unwrap().into_owned()["items"].as_array().unwrap().len(), 1);
        assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "internal");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_text_is_truncated_in_the_middle() {
    bounded(async {
        let long = scripted("long", |_, _| async {
            let text = format!("BEGIN{}END", "ü".repeat(20_000));
            Ok(Outcome::Ready(ToolOutput::Own { text, structured: None }))
        });
        let hub = Hub::limited(CALLS, 4096, [long]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let text = hub.ok(&agent, "long", json!({})).await.text().into_owned();
        assert!(text.len() <= 4096, "{}", text.len());
        assert!(text.starts_with("BEGIN") && text.ends_with("END"));
        let remaining = text.matches('ü').count();
        let left_out = (20_000 - remaining) * "ü".len();
        assert!(text.contains(&format!("[… {left_out} bytes left out …]")), "{}", text.replace('ü', ""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_data_is_refused_and_rolled_back() {
    bounded(async {
        let big = scripted("big", |context, _| async move {
            Ok(Outcome::transact(move |conn| {
                Box::pin(async move {
                    conn.add_todo(context.session_id, "undone", TodoStatus::Pending, context.clock.now())
                        .await?;
                    Ok(output(&"x".repeat(5_000)))
                })
            }))
        });
        let reads = scripted("reads", |_, _| async { ready(&"x".repeat(5_000)) });
        let hub = Hub::limited(CALLS, 4096, [big, reads]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for tool in ["big", "reads"] {
            let reply = hub.call(&agent, tool, json!({})).await;
            let error = reply.result.unwrap_err();
            assert_eq!(error.code, ErrorCode::TooLarge, "{tool}");
            assert!(error.message.contains("4096"), "{error:?}");
            assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "too_large");
        }
        assert_eq!(hub.ok(&agent, "todo", json!({ "action": "list" })).await.text(), "The list is empty.");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_limit_applies_per_principal() {
    bounded(async {
        let (blocking, tool) = BlockingTool::tool("waits");
        let hub = Hub::limited(2, OUTPUT, [tool]).await;
        let (ann, bob) = (hub.agent("ann", &["call:*"]).await, hub.agent("bob", &["call:*"]).await);
        // A second token of the same holder is no way around the limit.
        let renewed = hub.agent("ann", &["call:*"]).await;
        let mut running = JoinSet::new();
        for agent in [&ann, &renewed] {
            let (dispatcher, agent) = (hub.dispatcher.clone(), agent.clone());
            running.spawn(async move { dispatcher.call(agent, call("waits", json!({}))).await });
        }
        blocking.wait_for_calls(2).await;
        assert_eq!(hub.dispatcher.in_flight(), 2);
        for agent in [&ann, &renewed] {
            let reply = hub.call(agent, "list_tools", json!({})).await;
            let error = reply.result.unwrap_err();
            assert_eq!(error.code, ErrorCode::Overloaded);
            assert!(error.code.is_retryable() && error.message.contains("2 running calls"), "{error:?}");
            assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "overloaded");
        }
        hub.ok(&bob, "list_tools", json!({})).await;
        blocking.release.cancel();
        for reply in running.join_all().await {
            reply.result.unwrap();
        }
        hub.ok(&ann, "list_tools", json!({})).await;
        assert_eq!(hub.dispatcher.in_flight(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_a_disconnected_caller_is_finished_and_recorded() {
    bounded(async {
        let (blocking, tool) = BlockingTool::tool("waits");
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        {
            let leaving = hub.call(&agent, "waits", json!({}));
            tokio::select! {
                _ = leaving => panic!("the tool must still wait"),
                () = blocking.wait_for_calls(1) => {}
            }
        }
        assert_eq!(hub.dispatcher.in_flight(), 1);
        blocking.release.cancel();
        let audited = hub.until_audited(|call| call.tool == "waits" && call.finished_at.is_some()).await;
        assert_eq!((audited.outcome.as_str(), audited.actor.as_str()), ("ok", "agent:ann"));
        let events = hub.events(audited.session_id.unwrap()).await;
        assert_eq!(events.last().unwrap().payload["result"]["text"], "let go");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_reaches_the_caller_in_order() {
    bounded(async {
        let hub = Hub::with([scripted("steps", |context, _| async move {
            for step in 1..=3 {
                let message = Some(format!("step {step}"));
                context.progress(Progress { done: f64::from(step), total: Some(3.0), message });
            }
            ready("done")
        })])
        .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let progress_values = Arc::new(Mutex::new(Vec::new()));
        let sink = progress_values.clone();
        let progress: plexus_tools::ProgressSink = Arc::new(move |step| sink.lock().unwrap().push(step));
        let call_request = Call { progress: Some(progress), ..call("steps", json!({})) };
        hub.dispatcher.call(agent.clone(), call_request).await.result.unwrap();
        let progress_values = progress_values.lock().unwrap().clone();
        assert_eq!(progress_values.iter().map(|step| step.done).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!(progress_values[2].message.as_deref(), Some("step 3"));
        // Who did not ask is not bothered.
        hub.ok(&agent, "steps", json!({})).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_lets_a_running_call_end_and_be_recorded() {
    bounded(async {
        let (blocking, tool) = BlockingTool::tool("waits");
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let stop = hub.supervisor.stopping(plexus_kit::Stage::Work);
        let (reply, drained) = tokio::join!(hub.call(&agent, "waits", json!({})), async {
            blocking.wait_for_calls(1).await;
            let released = async {
                stop.cancelled().await;
                blocking.release.cancel();
            };
            tokio::join!(hub.supervisor.shutdown(Duration::from_secs(30)), released).0
        });
        assert!(drained.aborted.is_empty(), "{drained:?}");
        assert_eq!(reply.result.unwrap().text(), "let go");
        let late = hub.err(&agent, "waits", json!({})).await;
        assert_eq!(late.code, ErrorCode::Unavailable);
        let hub = hub.restarted().await;
        assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "ok");
    })
    .await;
}
