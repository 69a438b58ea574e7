//! Repeated writes: to two hubs on one PostgreSQL database at the same time, and to one hub much later.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_auth::{Authenticator, KeyRing, Principal};
use plexus_kit::{Clock, Durability, Secret, Supervisor};
use plexus_store::{Store, StoreOptions};
use plexus_testkit::{TestHub, postgres};
use plexus_tools::{Call, CallReply, Dispatcher, DispatcherOptions, Registry, SessionKey, Via, native};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(120);
/// Number of writes in flight per hub.
const AT_ONCE: usize = 16;

/// A store and a dispatcher with their own instance name, as each hub on a shared database has.
async fn open(url: &str, name: &str, dir: &Path, supervisor: &Supervisor) -> (Store, Dispatcher) {
    let options = StoreOptions {
        data_dir: dir.join(name),
        database_url: Some(Secret::from(url.to_owned())),
        durability: Durability::Process,
        instance_id: name.to_owned(),
    };
    std::fs::create_dir_all(&options.data_dir).unwrap();
    let store = Store::open(&options, supervisor).await.unwrap();
    let dispatcher = Dispatcher::new(
        Arc::new(Registry::new(native::tools())),
        store.clone(),
        Clock::system(),
        supervisor.clone(),
        DispatcherOptions {
            files_dir: options.data_dir.join("sessions"),
            calls_per_principal: 2 * AT_ONCE,
            output_bytes: 1 << 20,
        },
    );
    (store, dispatcher)
}

fn todo(key: &str, arguments: Value) -> Call {
    Call::new("todo", arguments, SessionKey::new("external", &["test", "1"], None), Via::Mcp)
        .with_idempotency_key(Some(key.to_owned()))
}

fn add(number: usize) -> Call {
    todo(&format!("k{number}"), json!({ "action": "add", "text": format!("item {number}") }))
}

/// Sends these writes with limited concurrency, each until it gets a final answer. Returns the number of retries.
async fn send_all(
    dispatcher: Dispatcher,
    agent: Arc<Principal>,
    numbers: Vec<usize>,
) -> (Vec<(usize, CallReply)>, usize) {
    let mut numbers = numbers.into_iter();
    let (mut under_way, mut replies, mut again) = (JoinSet::new(), Vec::new(), 0);
    let send = |number: usize| {
        let (dispatcher, agent) = (dispatcher.clone(), agent.clone());
        async move { (number, dispatcher.call(agent, add(number)).await) }
    };
    for number in numbers.by_ref().take(AT_ONCE) {
        under_way.spawn(send(number));
    }
    while let Some(done) = under_way.join_next().await {
        let (number, reply) = done.unwrap();
        match &reply.result {
            Err(error) => {
                assert!(error.code.is_retryable(), "{error:?}");
                again += 1;
                under_way.spawn(send(number));
            }
            Ok(_) => {
                replies.push((number, reply));
                if let Some(next) = numbers.next() {
                    under_way.spawn(send(next));
                }
            }
        }
    }
    replies.sort_by_key(|(number, _)| *number);
    (replies, again)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hubs_run_a_write_once_and_return_one_result() {
    let Some(url) = postgres::database().await else { return };
    let test = async {
        let dir = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::new();
        let (store, one) = open(&url, "one", dir.path(), &supervisor).await;
        let (_, other) = open(&url, "other", dir.path(), &supervisor).await;
        let keys = Arc::new(KeyRing::open(dir.path(), Clock::system()).unwrap());
        let file = dir.path().join("admin-token");
        let authenticator =
            Authenticator::new(keys, store.clone(), Clock::system(), file.clone()).await.unwrap();
        authenticator.ensure_admin_token().await.unwrap();
        let agent = authenticator.authenticate(std::fs::read_to_string(file).unwrap().trim()).unwrap();

        // One write at a time, to both hubs concurrently: no retries are needed.
        for number in 0..40 {
            let (a, b) =
                tokio::join!(one.call(agent.clone(), add(number)), other.call(agent.clone(), add(number)));
            assert_eq!(a.result.as_ref().unwrap(), b.result.as_ref().unwrap(), "{number}");
            assert!(a.replayed != b.replayed, "{number}: {a:?} {b:?}");
            assert_eq!(a.session_id, b.session_id);
        }
        // Many writes at a time, in a different order at each hub.
        let (up, down) = ((40..240).collect(), (40..240).rev().collect());
        let ((a, waited_a), (b, waited_b)) = tokio::join!(
            send_all(one.clone(), agent.clone(), up),
            send_all(other.clone(), agent.clone(), down)
        );
        for ((number, a), (_, b)) in a.iter().zip(&b) {
            assert_eq!(a.result.as_ref().unwrap(), b.result.as_ref().unwrap(), "{number}");
            assert!(a.replayed || b.replayed, "{number} ran twice");
        }
        assert_eq!((waited_a, waited_b), (0, 0), "the hubs do not block each other");
        let list = one.call(agent.clone(), todo("list", json!({ "action": "list" }))).await.result.unwrap();
        let list = list.structured().unwrap().into_owned();
        let mut texts: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!((texts.len(), list["items"].as_array().unwrap().len()), (240, 240));

        let misused = todo("k0", json!({ "action": "clear" }));
        let error = other.call(agent.clone(), misused).await.result.unwrap_err();
        assert_eq!(error.code.as_str(), "idempotency_conflict");
        let drained = supervisor.shutdown(LIMIT).await;
        assert!(drained.aborted.is_empty(), "{drained:?}");
    };
    tokio::time::timeout(LIMIT, test).await.expect("the test hangs");
}

#[tokio::test]
async fn idempotency_keys_last_a_week_across_restarts() {
    let hub = TestHub::start().await;
    let token = hub.token("agent", &["call:todo"]).await.token;
    async fn add(hub: &TestHub, token: &str) -> Value {
        let request = hub.http().post(hub.url("/api/v1/tools/todo/call")).bearer_auth(token);
        let arguments = json!({ "arguments": { "action": "add", "text": "milk" } });
        let answer = request.header("idempotency-key", "once").json(&arguments).send().await.unwrap();
        answer.json().await.unwrap()
    }
    let first = add(&hub, &token).await;
    assert_eq!(first["replayed"], false, "{first}");
    let hub = hub.restart_later(Duration::from_secs(7 * 24 * 3600 - 60)).await;
    let second = add(&hub, &token).await;
    assert_eq!(
        (&second["replayed"], &second["structured"]),
        (&json!(true), &first["structured"]),
        "{second}"
    );
}
