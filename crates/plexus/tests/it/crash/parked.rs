//! Crashes while calls are parked, waiting for the answer of a user, or run as tasks: no call runs twice, and a client with a
//! request state or task id learns the outcome.
//!
//! The server is not a child of the hub and writes a ledger, so the test knows which calls were begun.

use std::path::Path;
use std::time::Duration;

use plexus_testkit::faults::Seed;
use plexus_testkit::fixture::{Eras, Fixture};
use plexus_testkit::{HubProcess, Plexus, modern_meta};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const TOOL: &str = "mcp__fix__count_runs";
/// Calls of one round.
const CALLS: usize = 8;
/// The smallest valid value.
const TASK_AFTER_SECONDS: &str = "1";

/// The state of a call at the time of the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashPoint {
    /// Its request is in flight or being processed.
    Early,
    /// It has asked its question, which is not answered.
    Parked,
    /// The answer to its question is in flight or being processed.
    Answered,
    /// It is a task, running or done.
    Task,
}

struct PlannedCall {
    id: String,
    point: CrashPoint,
    /// How long it runs after its question was answered.
    ms: u64,
    key: Option<String>,
    /// The `requestState` for the retry.
    state: Option<String>,
    task: Option<String>,
    /// The result, if it arrived before the crash.
    result: Option<Value>,
}

impl PlannedCall {
    fn plan(round: u64, number: usize, rng: &mut StdRng) -> Self {
        let point =
            [CrashPoint::Early, CrashPoint::Parked, CrashPoint::Answered, CrashPoint::Task][number % 4];
        let id = format!("{round}-{number}");
        let key = rng.random_bool(0.5).then(|| format!("key-{id}"));
        let ms = match point {
            CrashPoint::Task => rng.random_range(1_000..2_000),
            _ => rng.random_range(0..200),
        };
        Self { id, point, ms, key, state: None, task: None, result: None }
    }

    /// The first request, which may be repeated.
    fn request(&self) -> Value {
        let mut params = json!({ "name": TOOL, "arguments": { "id": self.id, "ms": self.ms } });
        if let Some(key) = &self.key {
            params["_meta"] = json!({ "plexus/idempotency-key": key });
        }
        params
    }

    /// The request that answers its question.
    fn retry(&self) -> Value {
        let mut params = self.request();
        params["requestState"] = json!(self.state);
        let yes = json!({ "action": "accept", "content": { "ok": true } });
        // The names of the question on a server with sessions and on a stateless one.
        params["inputResponses"] = json!({ "confirm": yes, "q1": yes });
        params
    }
}

/// A client that supports tasks and elicitation.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Client {
    /// The answer to a request, if there is one.
    async fn ask(&self, method: &str, mut params: Value) -> Option<Value> {
        let mut meta = modern_meta();
        let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
        meta["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {}, "extensions": tasks });
        if let (Some(meta), Some(more)) = (meta.as_object_mut(), params["_meta"].as_object()) {
            meta.extend(more.clone());
        }
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap().to_owned();
        params["_meta"] = meta;
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.http.post(&self.url).bearer_auth(&self.token).json(&body);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", method).header("mcp-name", name);
        request.send().await.ok()?.json().await.ok()
    }

    /// The answer to a request that must be answered.
    async fn answered(&self, method: &str, params: Value) -> Value {
        self.ask(method, params.clone()).await.unwrap_or_else(|| panic!("no answer to {method} {params}"))
    }
}

/// How often a step of a call is in the ledger.
fn count(ledger: &Path, step: &str, id: &str) -> usize {
    let line = format!("{step} {id}");
    std::fs::read_to_string(ledger).unwrap_or_default().lines().filter(|noted| **noted == line).count()
}

/// Makes the requests of a call that must be answered before the crash.
async fn prepare(client: Client, mut call: PlannedCall) -> PlannedCall {
    if call.point == CrashPoint::Early {
        return call;
    }
    let first_answer = client.answered("tools/call", call.request()).await;
    assert_eq!(first_answer["result"]["resultType"], "input_required", "{first_answer}");
    call.state = Some(first_answer["result"]["requestState"].as_str().unwrap().to_owned());
    if call.point == CrashPoint::Task {
        let begun = client.answered("tools/call", call.retry()).await;
        // A call that runs just as long as it takes to become a task may be complete instead.
        match begun["result"]["resultType"].as_str() {
            Some("task") => call.task = Some(begun["result"]["taskId"].as_str().unwrap().to_owned()),
            Some("complete") => call.result = Some(begun["result"].clone()),
            _ => panic!("{begun}"),
        }
    }
    call
}

/// Makes the request of a call that is in flight during the crash.
async fn interrupt(client: Client, mut call: PlannedCall) -> PlannedCall {
    let answer = match call.point {
        CrashPoint::Early => client.ask("tools/call", call.request()).await,
        CrashPoint::Answered => client.ask("tools/call", call.retry()).await,
        CrashPoint::Parked | CrashPoint::Task => None,
    };
    let result = answer.map(|answer| answer["result"].clone());
    if let Some(state) = result.as_ref().and_then(|result| result["requestState"].as_str()) {
        call.state = Some(state.to_owned());
    }
    call.result = call.result.or(result.filter(|result| result["resultType"] == "complete"));
    call
}

/// Checks the answers about a call after the restart.
async fn check(client: &Client, ledger: &Path, call: &PlannedCall, seed: &str) {
    let PlannedCall { id, point, .. } = call;
    let about = format!("{id} {point:?} ({seed})");
    if let Some(result) = &call.result {
        assert_eq!((&result["isError"], count(ledger, "done", id)), (&json!(false), 1), "{about}: {result}");
    }
    if call.state.is_some() {
        let lost = client.answered("tools/call", call.retry()).await;
        assert_eq!(lost["error"]["code"], -32602, "{about}: {lost}");
        assert_eq!(lost["error"]["data"]["plexus"], "lost", "{about}: {lost}");
        let why = lost["error"]["message"].as_str().unwrap();
        assert!(why.contains("restarted"), "{about}: {why}");
    }
    if let Some(task) = &call.task {
        let task = client.answered("tasks/get", json!({ "taskId": task })).await;
        let task = &task["result"];
        match task["status"].as_str() {
            Some("completed") => assert_eq!(count(ledger, "done", id), 1, "{about}: {task}"),
            Some("failed") => {
                let why = task["error"]["message"].as_str().unwrap();
                assert!(why.contains("unknown whether the task has done its work"), "{about}: {task}");
            }
            _ => panic!("{about}: {task}"),
        }
    }
    if call.key.is_some() {
        // The key is stored before the call begins; without a stored key nothing was begun.
        let before = count(ledger, "begun", id);
        let again = client.answered("tools/call", call.request()).await;
        let result = &again["result"];
        let conflicts = result["_meta"]["plexus/error"]["code"] == "conflict";
        let replayed = result["_meta"]["plexus/replayed"] == true;
        let first = *point == CrashPoint::Early && before == 0;
        assert!(conflicts || replayed || first, "{about}: {again}");
    }
}

pub(super) async fn interrupted(plexus: Plexus, rounds: u64) {
    let plexus = plexus.with("PLEXUS_LIMITS_TASK_AFTER_SECONDS", TASK_AFTER_SECONDS.to_owned());
    let seed = Seed::choose();
    let ledger = plexus.home().join("ledger");
    let server = |eras| Fixture::new().only(eras).with_ledger(Some(ledger.clone()));
    let servers = [server(Eras::Stateless).start().await, server(Eras::Sessions).start().await];
    let (mut ids, mut completed) = (Vec::new(), 0);
    for round in 0..rounds {
        let mut rng = seed.round(round);
        let label = format!("round {round}, {seed}");
        let url = servers[usize::try_from(round % 2).unwrap()].url();
        let hub = up(&plexus, &url).await;
        let token = hub.admin_token();
        let client = |hub: &HubProcess| Client {
            http: plexus.http().clone(),
            url: hub.url("/mcp"),
            token: token.clone(),
        };
        let connected = client(&hub);
        let calls = (0..CALLS).map(|number| PlannedCall::plan(round, number, &mut rng)).collect::<Vec<_>>();
        ids.extend(calls.iter().map(|call| call.id.clone()));
        let preparing: JoinSet<PlannedCall> =
            calls.into_iter().map(|call| prepare(connected.clone(), call)).collect();
        let calls = preparing.join_all().await;
        let delay = Duration::from_micros(rng.random_range(0..400_000));
        let kill = async {
            // The crash happens at a random moment of the calls.
            tokio::time::sleep(delay).await;
            hub.kill().await;
        };
        let interrupted_calls: JoinSet<PlannedCall> =
            calls.into_iter().map(|call| interrupt(connected.clone(), call)).collect();
        let (calls, ()) = tokio::join!(interrupted_calls.join_all(), kill);
        completed += calls.iter().filter(|call| call.result.is_some()).count();
        let hub = up(&plexus, &url).await;
        let connected = client(&hub);
        for call in &calls {
            check(&connected, &ledger, call, &label).await;
        }
        hub.kill().await;
    }
    for id in &ids {
        let [begun, done] = ["begun", "done"].map(|step| count(&ledger, step, id));
        assert!(begun <= 1 && done <= begun, "{id} was begun {begun} and done {done} times ({seed})");
    }
    eprintln!("{} calls, {completed} of them answered before the crash ({seed})", ids.len());
}

/// Starts a hub with this server, and waits until the server is ready.
async fn up(plexus: &Plexus, url: &str) -> HubProcess {
    let folder = plexus.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    let document = json!({ "url": url, "approve": "auto" });
    std::fs::write(folder.join("fix.json"), document.to_string()).unwrap();
    let hub = plexus.up().await;
    hub.api_until("/api/v1/upstreams/fix", |server| server["state"] == "ready").await;
    hub
}
