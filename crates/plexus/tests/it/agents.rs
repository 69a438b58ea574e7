//! The real Codex and Claude Code as clients of a hub, with a scripted model to think for them.
//!
//! Hub, model and agent run in a network of their own that has only loopback. The agents have no
//! credentials but a token of that hub.

mod claude_asked;
mod claude_code;
mod codex;
mod connect;
mod new_user;
mod run;

use std::time::Duration;

use plexus_testkit::model::{Fault, Script, ScriptedModel, Tool, Turn};
use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

/// Where the test takes over between two turns.
const BETWEEN: &str = "between two calls";
const BACK: &str = "before the hub is back";
const PROMPT: &str = "Keep my shopping list.";

/// A hub and a model for an agent.
struct Scene {
    plexus: Plexus,
    hub: HubProcess,
    model: ScriptedModel,
    /// For the agent; its name is that of the agent.
    token: String,
}

impl Scene {
    async fn set(agent: &str, script: Script) -> Self {
        let plexus = crate::plexus();
        let hub = plexus.up().await;
        let token = hub.token(agent).await.token;
        Self { plexus, hub, model: ScriptedModel::start(script).await, token }
    }

    /// `SIGKILL` when the agent is at one point; another hub on the same address and folder when it is at
    /// the other, which may be the same.
    async fn restart_hub(self, killed_at: &str, back_at: &str) -> Self {
        let Self { plexus, hub, model, token } = self;
        let address = hub.address().to_string();
        model.reached(killed_at).await;
        hub.kill().await;
        if back_at != killed_at {
            model.release(killed_at);
            model.reached(back_at).await;
        }
        let hub = plexus.up_with(&["--listen", &address]).await;
        model.release(back_at);
        Self { plexus, hub, model, token }
    }
}

fn todo(arguments: Value) -> Turn {
    Turn::call(Tool::ending("todo"), arguments)
}

fn add(text: &str) -> Value {
    json!({ "action": "add", "text": text })
}

fn list() -> Value {
    json!({ "action": "list" })
}

/// Adds, adds again and looks; with a point to stop at after the first.
fn script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")).paused_at(BETWEEN))
        .turn(todo(list()))
        .turn(Turn::text("Both are on the list."))
}

/// The same by a model that makes trouble, each time another.
fn troubled_script() -> Script {
    let limited = Fault::RateLimited { retry_after: Duration::from_secs(1) };
    Script::new()
        .turn(todo(add("milk")).failing(Fault::CutOff))
        .turn(todo(add("bread")).failing(Fault::Overloaded))
        .turn(todo(list()).failing(Fault::Broken))
        .turn(Turn::text("Both are on the list.").failing(limited))
}

/// The same by a model that tries again what fails while the hub is away.
fn patient_script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")).paused_at(BETWEEN))
        .turn(todo(add("bread")).paused_at(BACK))
        .turn(todo(list()))
        .turn(Turn::text("Both are on the list."))
}

/// Adds, ends, and looks when the conversation is taken up again.
fn resumed_script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")))
        .turn(Turn::text("Both are on the list."))
        .turn(todo(list()))
        .turn(Turn::text("Both are still there."))
}

/// What the agent told the model that the tools said, up to the last turn: the texts on the list, or none
/// where that was an error.
fn lists(model: &ScriptedModel, last: usize) -> Vec<Option<Vec<String>>> {
    model.assert_played();
    let on_list = |text: &str| {
        // Codex writes a line or two before it.
        let list: Value = serde_json::from_str(&text[text.find("{\"items\"")?..]).ok()?;
        let texts = list["items"].as_array()?.iter().map(|item| item["text"].as_str().unwrap_or_default());
        Some(texts.map(str::to_owned).collect())
    };
    model.request_for(last).results().map(|result| on_list(&result.text)).collect()
}

fn list_of(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

/// The list grew as it should, and the hub has it so.
async fn check(scene: &Scene, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists(&scene.model, 3), [list_of(&["milk"]), both.clone(), both]);
    check_records(&scene.hub, agent, key).await;
}

/// The list was whole when the conversation was taken up again.
async fn check_resumed(scene: &Scene, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists(&scene.model, 4), [list_of(&["milk"]), both.clone(), both]);
    check_records(&scene.hub, agent, key).await;
}

/// The call that met no hub failed, and everything after it went well.
async fn check_patience(scene: &Scene, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists(&scene.model, 4), [list_of(&["milk"]), None, both.clone(), both]);
    check_records(&scene.hub, agent, key).await;
}

/// One session of this key, of this agent, with every call once.
async fn check_records(hub: &HubProcess, agent: &str, key: &str) {
    let mut sessions = hub.list("/api/v1/sessions", |_| false).await;
    // What the hub itself writes down, of its machines.
    sessions.retain(|session| session["owner"] != "hub");
    let [session] = sessions.as_slice() else { panic!("{sessions:#?}") };
    let owner = format!("agent:{agent}");
    assert_eq!((&session["key"], &session["owner"]), (&json!(key), &json!(owner)), "{session}");
    let id = session["id"].as_str().expect("an id");

    let calls = hub.list("/api/v1/audit", |_| false).await;
    let calls: Vec<&Value> = calls.iter().rev().filter(|call| call["via"] == "mcp").collect();
    let made: Vec<&Value> = calls.iter().map(|call| &call["arguments"]).collect();
    assert_eq!(made, [&add("milk"), &add("bread"), &list()], "{calls:#?}");
    for call in calls {
        assert_eq!((&call["tool"], &call["outcome"]), (&json!("todo"), &json!("ok")), "{call}");
        assert_eq!((&call["actor"], &call["session_id"]), (&json!(owner), &json!(id)), "{call}");
    }

    let events = hub.events(id).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["tool_started", "tool_call"].repeat(3), "{events:#?}");
    assert!(events.iter().skip(1).step_by(2).all(|event| event["payload"]["success"] == true), "{events:#?}");

    let report = hub.api("/api/v1/audit/verify").await;
    assert_eq!(report["ok"], true, "{report}");
}

/// The tools of the hub were offered to the model, under the name that the hub was given.
fn check_offer(scene: &Scene) {
    let offered = scene.model.request_for(0).tools();
    for tool in ["list_tools", "scratchpad", "session_info", "todo", "tool_call", "tool_search"] {
        assert!(offered.contains(&format!("mcp__plexus__{tool}")), "{tool} is not among {offered:?}");
    }
}

/// What an agent prints as lines of JSON.
fn lines(stdout: &str) -> Vec<Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
