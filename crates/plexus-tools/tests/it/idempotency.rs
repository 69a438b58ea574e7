//! A key runs its write once and gives its first result for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_proto::{ErrorCode, Timestamp};
use plexus_tools::{Call, CallError, CallReply, SessionKey, Tool, ToolOutput};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::hub::{BlockingTool, Hub, bounded, call, keyed, ready, scripted, upstream_tool};

fn add() -> Value {
    json!({ "action": "add", "text": "once" })
}

async fn items(hub: &Hub, agent: &Arc<Principal>) -> usize {
    let list = hub.ok(agent, "todo", json!({ "action": "list" })).await;
    list.structured().unwrap().into_owned()["items"].as_array().unwrap().len()
}

async fn call_keyed(hub: &Hub, agent: &Arc<Principal>, arguments: Value, key: &str) -> CallReply {
    hub.dispatcher.call(agent.clone(), keyed("todo", arguments, key)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_twice_has_one_effect_and_one_result() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let first = call_keyed(&hub, &agent, add(), "k").await;
        // Written differently, meant alike; by a renewed token, from another session.
        let renewed = hub.agent("ann", &["call:*"]).await;
        let again = Call {
            session: SessionKey::new("external", &["test", "2"], None),
            ..keyed("todo", json!({ "text": "once", "id": null, "action": "add" }), "k")
        };
        let second = hub.dispatcher.call(renewed, again).await;
        assert_eq!((first.replayed, second.replayed), (false, true));
        assert_eq!(first.result.as_ref().unwrap(), second.result.as_ref().unwrap());
        assert_eq!(items(&hub, &agent).await, 1);
        // The second call is audited as what it was.
        let audited = hub.audited(second.call_id).await.unwrap();
        assert_eq!((audited.outcome.as_str(), audited.entries.len()), ("ok", 2));
        assert_eq!(audited.result["replay_of"], json!(first.call_id));
        // Through tool_call it is the same call.
        let through = keyed("tool_call", json!({ "name": "todo", "arguments": add() }), "k");
        assert!(hub.dispatcher.call(agent.clone(), through).await.replayed);
        assert_eq!(items(&hub, &agent).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_calls_at_once_with_one_key_have_one_effect() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let hub = Hub::with([scripted("counts", move |_, _| {
            let run = count.fetch_add(1, Ordering::SeqCst);
            async move { ready(&format!("run {run}")) }
        })])
        .await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for (tool, arguments) in [("todo", add()), ("counts", json!({}))] {
            let mut callers = JoinSet::new();
            for _ in 0..16 {
                let (dispatcher, agent) = (hub.dispatcher.clone(), agent.clone());
                let request = keyed(tool, arguments.clone(), tool);
                callers.spawn(async move { dispatcher.call(agent, request).await });
            }
            let replies = callers.join_all().await;
            assert_eq!(replies.iter().filter(|reply| !reply.replayed).count(), 1);
            let results: Vec<&ToolOutput> = replies.iter().map(|r| r.result.as_ref().unwrap()).collect();
            assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        }
        assert_eq!(items(&hub, &agent).await, 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_on_two_hubs_at_once_has_one_effect() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let second = hub.second_dispatcher();
        for round in 0..10 {
            let request = || keyed("todo", add(), &format!("k{round}"));
            let (a, b) = tokio::join!(
                hub.dispatcher.call(agent.clone(), request()),
                second.call(agent.clone(), request())
            );
            // The one that lost the race gets the result of the other.
            assert_eq!(a.result.as_ref().unwrap(), b.result.as_ref().unwrap());
            assert!(a.replayed != b.replayed, "{a:?} {b:?}");
            let lost = hub.audited(if a.replayed { a.call_id } else { b.call_id }).await.unwrap();
            assert_eq!((lost.outcome.as_str(), lost.entries.len()), ("ok", 2));
            let again = second.call(agent.clone(), request()).await;
            assert!(again.replayed && again.result.is_ok());
            assert_eq!(items(&hub, &agent).await, round + 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_for_two_things_on_two_hubs_at_once_is_one_of_them() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let second = hub.second_dispatcher();
        for round in 0..10 {
            let request =
                |text: &str| keyed("todo", json!({ "action": "add", "text": text }), &format!("k{round}"));
            let (a, b) = tokio::join!(
                hub.dispatcher.call(agent.clone(), request("one")),
                second.call(agent.clone(), request("two"))
            );
            let errors: Vec<_> = [a, b].into_iter().filter_map(|reply| reply.result.err()).collect();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(errors[0].code, ErrorCode::IdempotencyConflict);
            assert_eq!(items(&hub, &agent).await, round + 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_write_records_its_original_time() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let now = hub.clock.now();
        let minutes = |n: i64| Timestamp::from_second(now.as_second() + 60 * n).unwrap();
        for (number, (key, text, is_stored)) in [
            (Some("old"), minutes(-90), Some(minutes(-90))),
            (Some("ahead"), minutes(4), Some(minutes(4))),
            (Some("wrong"), minutes(6), Some(now)),
            // Without a key nobody sends it again.
            (None, minutes(-90), None),
        ]
        .into_iter()
        .enumerate()
        {
            let call = Call {
                idempotency_key: key.map(str::to_owned),
                occurred_at: Some(text),
                session: SessionKey::new("external", &["test", &number.to_string()], None),
                ..keyed("todo", add(), "")
            };
            let reply = hub.dispatcher.call(agent.clone(), call).await;
            reply.result.unwrap();
            let events = hub.events(reply.session_id.unwrap()).await;
            assert_eq!(events.len(), 2);
            for event in events {
                let payload = &event.payload;
                assert_eq!(payload["occurred_at"], json!(is_stored), "{payload}");
                let waited = is_stored.map(|at| (now.as_millisecond() - at.as_millisecond()).max(0));
                assert_eq!(payload["waited_ms"], json!(waited), "{payload}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_reused_for_another_request_is_a_conflict() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        call_keyed(&hub, &agent, add(), "k").await.result.unwrap();
        for other in [
            keyed("todo", json!({ "action": "add", "text": "twice" }), "k"),
            keyed("todo", json!({ "action": "clear" }), "k"),
            keyed("list_tools", json!({}), "k"),
        ] {
            let reply = hub.dispatcher.call(agent.clone(), other).await;
            assert!(!reply.replayed);
            assert_eq!(reply.result.unwrap_err().code, ErrorCode::IdempotencyConflict);
            assert_eq!(hub.audited(reply.call_id).await.unwrap().outcome, "idempotency_conflict");
        }
        assert_eq!(items(&hub, &agent).await, 1);
        // Keys are each holder's own.
        let bob = hub.agent("bob", &["call:*"]).await;
        let reply = call_keyed(&hub, &bob, json!({ "action": "add", "text": "bob's" }), "k").await;
        assert!(!reply.replayed && reply.result.unwrap().text().contains("bob's"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_result_is_replayed_after_a_restart() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let first = call_keyed(&hub, &agent, add(), "k").await.result.unwrap();
        // What changed since does not show in it.
        hub.ok(&agent, "todo", json!({ "action": "add", "text": "later" })).await;
        let hub = hub.restarted().await;
        let second = call_keyed(&hub, &agent, add(), "k").await;
        assert!(second.replayed);
        assert_eq!(second.result.unwrap(), first);
        assert_eq!(items(&hub, &agent).await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_first_call_is_not_kept() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let flaky: Tool = scripted("flaky", move |_, _| {
            let run = count.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => Err(CallError::new(ErrorCode::ToolFailed, "not yet")),
                    1 => panic!("a handler that panics on purpose"),
                    _ => ready("now"),
                }
            }
        });
        let hub = Hub::with([flaky]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let mut replies = Vec::new();
        for _ in 0..4 {
            let reply = hub.dispatcher.call(agent.clone(), keyed("flaky", json!({}), "k")).await;
            replies.push((
                reply.replayed,
                reply.result.map(|output| output.text().into_owned()).map_err(|error| error.code),
            ));
        }
        let now = || Ok("now".to_owned());
        let expected = [
            (false, Err(ErrorCode::ToolFailed)),
            (false, Err(ErrorCode::Internal)),
            (false, now()),
            (true, now()),
        ];
        assert_eq!(replies, expected);
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        // A tool's own refusal, made inside the transaction.
        let remove = json!({ "action": "remove", "id": 1 });
        assert!(call_keyed(&hub, &agent, remove.clone(), "r").await.result.is_err());
        hub.ok(&agent, "todo", add()).await;
        let reply = call_keyed(&hub, &agent, remove, "r").await;
        assert!(!reply.replayed && reply.result.is_ok());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_waiting_for_its_key_can_be_cancelled() {
    bounded(async {
        let (blocking, tool) = BlockingTool::tool("waits");
        let hub = Hub::with([tool]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let mut first = JoinSet::new();
        let dispatcher = hub.dispatcher.clone();
        let request = (agent.clone(), keyed("waits", json!({}), "k"));
        first.spawn(async move { dispatcher.call(request.0, request.1).await });
        blocking.wait_for_calls(1).await;
        let second = keyed("waits", json!({}), "k");
        second.cancel.cancel();
        let second = hub.dispatcher.call(agent.clone(), second);
        let second = tokio::time::timeout(Duration::from_secs(5), second).await;
        blocking.release.cancel();
        first.join_all().await;
        let reply = second.expect("a cancelled call must not wait for another one");
        assert_eq!(reply.result.unwrap_err().code, ErrorCode::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_1_to_255_bytes_and_none_means_no_replay() {
    bounded(async {
        let hub = Hub::start().await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for key in [String::new(), "x".repeat(256)] {
            let error = call_keyed(&hub, &agent, add(), &key).await.result.unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidRequest);
        }
        assert_eq!(items(&hub, &agent).await, 0);
        call_keyed(&hub, &agent, add(), &"x".repeat(255)).await.result.unwrap();
        for _ in 0..2 {
            assert!(!hub.dispatcher.call(agent.clone(), call("todo", add())).await.replayed);
        }
        assert_eq!(items(&hub, &agent).await, 3);
    })
    .await;
}

/// A tool of another server that must not be run twice, which gives these results one after the other.
fn reaching_out(results: Vec<Result<ToolOutput, CallError>>, runs: &Arc<AtomicUsize>) -> Tool {
    let (results, runs) = (Arc::new(results), runs.clone());
    upstream_tool(move || {
        let result = results[runs.fetch_add(1, Ordering::SeqCst)].clone();
        async move { result }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_call_runs_once_per_key() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let not_sent = CallError::new(ErrorCode::Unavailable, "not there").before_it_ran();
        let lost = CallError::new(ErrorCode::Unavailable, "lost on the way");
        let results = vec![Err(not_sent), Err(lost), Ok(ToolOutput::new("done", &json!({})))];
        let hub = Hub::with([reaching_out(results, &runs)]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let message = async |key: &str| {
            let reply = hub.dispatcher.call(agent.clone(), keyed("mcp__far__write", json!({}), key)).await;
            let text = match reply.result {
                Ok(output) => output.text().into_owned(),
                Err(error) => error.message,
            };
            (reply.replayed, text)
        };
        // It never got there, so the key is released.
        assert_eq!(message("k").await, (false, "not there".to_owned()));
        assert_eq!(message("k").await, (false, "lost on the way".to_owned()));
        // Nobody knows what became of it, and nobody finds out by doing it again.
        let again = hub.dispatcher.call(agent.clone(), keyed("mcp__far__write", json!({}), "k")).await;
        let error = again.result.unwrap_err();
        assert!(
            again.replayed && error.code == ErrorCode::Conflict && !error.code.is_retryable(),
            "{error:?}"
        );
        assert!(
            error.text().contains("lost on the way") && error.text().contains("with a new key"),
            "{error:?}"
        );
        assert_eq!(message("other").await, (false, "done".to_owned()));
        assert_eq!(message("other").await, (true, "done".to_owned()));
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_reserved_before_a_hub_exit_is_not_run_again() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let hub = Hub::with([reaching_out(vec![Ok(ToolOutput::new("done", &json!({})))], &runs)]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        hub.dispatcher.call(agent.clone(), keyed("mcp__far__write", json!({}), "k")).await.result.unwrap();
        // As a hub leaves it that died between the call and its answer.
        hub.store
            .write(|conn| {
                Box::pin(
                    async move { conn.store_idempotent_result("agent:ann", "k", r#"{"begun":true}"#).await },
                )
            })
            .await
            .unwrap();
        let reply = hub.dispatcher.call(agent, keyed("mcp__far__write", json!({}), "k")).await;
        let error = reply.result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Conflict, "{error}");
        assert!(error.text().contains("may still be running"), "{}", error.text());
        assert!(error.text().contains("with a new key"), "{}", error.text());
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_accept_arguments_may_have_done_its_work() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        // So say servers whose own result does not fit what they promised.
        let refused = CallError::new(ErrorCode::InvalidArguments, "Output validation error");
        let hub = Hub::with([reaching_out(vec![Err(refused)], &runs)]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        for replayed in [false, true] {
            let reply = hub.dispatcher.call(agent.clone(), keyed("mcp__far__write", json!({}), "k")).await;
            let code = reply.result.unwrap_err().code;
            assert_eq!((reply.replayed, code), (replayed, ErrorCode::InvalidArguments));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reservation_of_a_key_is_refused_on_the_second_hub() {
    bounded(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let done = || Ok(ToolOutput::new("done", &json!({})));
        let hub = Hub::with([reaching_out((0..20).map(|_| done()).collect(), &runs)]).await;
        let agent = hub.agent("ann", &["call:*"]).await;
        let second = hub.second_dispatcher();
        for round in 0..20 {
            let request = || keyed("mcp__far__write", json!({}), &format!("k{round}"));
            let (a, b) = tokio::join!(
                hub.dispatcher.call(agent.clone(), request()),
                second.call(agent.clone(), request())
            );
            assert!(a.result.is_ok() || b.result.is_ok(), "{a:?} {b:?}");
            for error in [a, b].into_iter().filter_map(|reply| reply.result.err()) {
                let outrun = error.text().contains("started first") && error.code == ErrorCode::Unavailable;
                let has_started =
                    error.text().contains("may still be running") && error.code == ErrorCode::Conflict;
                assert!(outrun || has_started, "{error:?}");
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 20);
    })
    .await;
}
