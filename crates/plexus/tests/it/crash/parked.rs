//! Crashes while calls wait for an answer of their user, or go on as tasks: nothing runs twice, and whoever holds a handle
//! to such a call is told what became of it.
//!
//! The server is not the hub's child and keeps a ledger, so that what was begun is known whatever was killed.

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
/// Of one round.
const CALLS: usize = 8;
/// What the configuration can say at least.
const TASK_AFTER_SECONDS: &str = "1";

/// Where a crash finds a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its request is on its way, or the hub is at work on it.
    Early,
    /// It has asked, and nobody has answered.
    Parked,
    /// The answer is on its way, or the server is at work with it.
    Answered,
    /// It is a task, at work or done.
    Task,
}

struct CallAt {
    id: String,
    fate: Fate,
    /// How long it works when it was answered.
    ms: u64,
    key: Option<String>,
    /// What the hub gave for the retry.
    state: Option<String>,
    task: Option<String>,
    /// The result, where it came before the crash.
    result: Option<Value>,
}

impl CallAt {
    fn plan(round: u64, number: usize, random: &mut StdRng) -> Self {
        let fate = [Fate::Early, Fate::Parked, Fate::Answered, Fate::Task][number % 4];
        let id = format!("{round}-{number}");
        let key = random.random_bool(0.5).then(|| format!("key-{id}"));
        let ms = match fate {
            Fate::Task => random.random_range(1_000..2_000),
            _ => random.random_range(0..200),
        };
        Self { id, fate, ms, key, state: None, task: None, result: None }
    }

    /// The request that begins it, or begins it again.
    fn request(&self) -> Value {
        let mut params = json!({ "name": TOOL, "arguments": { "id": self.id, "ms": self.ms } });
        if let Some(key) = &self.key {
            params["_meta"] = json!({ "plexus/idempotency-key": key });
        }
        params
    }

    /// The one that answers its question.
    fn retry(&self) -> Value {
        let mut params = self.request();
        params["requestState"] = json!(self.state);
        let yes = json!({ "action": "accept", "content": { "ok": true } });
        // By either name: that of a server with sessions, and that of one without.
        params["inputResponses"] = json!({ "confirm": yes, "q1": yes });
        params
    }
}

/// A client that knows tasks and can be asked; none where the hub does not answer.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Client {
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

    /// Asks what must be answered.
    async fn answered(&self, method: &str, params: Value) -> Value {
        self.ask(method, params.clone()).await.unwrap_or_else(|| panic!("no answer to {method} {params}"))
    }
}

/// How often each step of a call is in the ledger.
fn count(ledger: &Path, step: &str, id: &str) -> usize {
    let line = format!("{step} {id}");
    std::fs::read_to_string(ledger).unwrap_or_default().lines().filter(|noted| **noted == line).count()
}

/// Brings a call to where the crash is to find it, as far as that takes an answer of the hub.
async fn prepare(client: Client, mut call: CallAt) -> CallAt {
    if call.fate == Fate::Early {
        return call;
    }
    let asked = client.answered("tools/call", call.request()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    call.state = Some(asked["result"]["requestState"].as_str().unwrap().to_owned());
    if call.fate == Fate::Task {
        let begun = client.answered("tools/call", call.retry()).await;
        // One that is as long as it takes to become a task may be done instead.
        match begun["result"]["resultType"].as_str() {
            Some("task") => call.task = Some(begun["result"]["taskId"].as_str().unwrap().to_owned()),
            Some("complete") => call.result = Some(begun["result"].clone()),
            _ => panic!("{begun}"),
        }
    }
    call
}

/// What is under way when the hub is killed.
async fn interrupt(client: Client, mut call: CallAt) -> CallAt {
    let answer = match call.fate {
        Fate::Early => client.ask("tools/call", call.request()).await,
        Fate::Answered => client.ask("tools/call", call.retry()).await,
        Fate::Parked | Fate::Task => None,
    };
    let result = answer.map(|answer| answer["result"].clone());
    if let Some(state) = result.as_ref().and_then(|result| result["requestState"].as_str()) {
        call.state = Some(state.to_owned());
    }
    call.result = call.result.or(result.filter(|result| result["resultType"] == "complete"));
    call
}

/// What a holder of a handle is told after the restart.
async fn check(client: &Client, ledger: &Path, call: &CallAt, seed: &str) {
    let CallAt { id, fate, .. } = call;
    let about = format!("{id} {fate:?} ({seed})");
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
        // Taken before the call was begun; where it was not, nothing was begun.
        let before = count(ledger, "begun", id);
        let again = client.answered("tools/call", call.request()).await;
        let result = &again["result"];
        let conflicts = result["_meta"]["plexus/error"]["code"] == "conflict";
        let replayed = result["_meta"]["plexus/replayed"] == true;
        let first = *fate == Fate::Early && before == 0;
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
        let mut random = seed.round(round);
        let said = format!("round {round}, {seed}");
        let url = servers[usize::try_from(round % 2).unwrap()].url();
        let hub = up(&plexus, &url).await;
        let token = hub.admin_token();
        let client = |hub: &HubProcess| Client {
            http: plexus.http().clone(),
            url: hub.url("/mcp"),
            token: token.clone(),
        };
        let at = client(&hub);
        let calls = (0..CALLS).map(|number| CallAt::plan(round, number, &mut random)).collect::<Vec<_>>();
        ids.extend(calls.iter().map(|call| call.id.clone()));
        let preparing: JoinSet<CallAt> = calls.into_iter().map(|call| prepare(at.clone(), call)).collect();
        let calls = preparing.join_all().await;
        let delay = Duration::from_micros(random.random_range(0..400_000));
        let kill = async {
            // The crash is to strike anywhere in what the calls do meanwhile.
            tokio::time::sleep(delay).await;
            hub.kill().await;
        };
        let under_way: JoinSet<CallAt> = calls.into_iter().map(|call| interrupt(at.clone(), call)).collect();
        let (calls, ()) = tokio::join!(under_way.join_all(), kill);
        completed += calls.iter().filter(|call| call.result.is_some()).count();
        let hub = up(&plexus, &url).await;
        let at = client(&hub);
        for call in &calls {
            check(&at, &ledger, call, &said).await;
        }
        hub.kill().await;
    }
    for id in &ids {
        let [begun, done] = ["begun", "done"].map(|step| count(&ledger, step, id));
        assert!(begun <= 1 && done <= begun, "{id} was begun {begun} and done {done} times ({seed})");
    }
    eprintln!("{} calls, {completed} of them answered before the crash ({seed})", ids.len());
}

/// A hub with this server, when it is ready.
async fn up(plexus: &Plexus, url: &str) -> HubProcess {
    let folder = plexus.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    let document = json!({ "url": url, "approve": "auto" });
    std::fs::write(folder.join("fix.json"), document.to_string()).unwrap();
    let hub = plexus.up().await;
    let ready = async {
        while hub.api("/api/v1/upstreams/fix").await["state"] != "ready" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ready).await.expect("the server is ready");
    hub
}
