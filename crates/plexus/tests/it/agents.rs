//! The real Codex and Claude Code as clients of a hub, played by a scripted model.
//!
//! Hub, model and agent run in a network of their own that has only loopback. The agents have no
//! credentials: the key that one of them insists on is the word below.

mod claude_code;
mod codex;

use plexus_testkit::model::{Script, ScriptedModel, Tool, Turn};
use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

/// Where the test takes over between two turns.
const BETWEEN: &str = "between two calls";
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

    /// `SIGKILL`, and another hub on the same address and folder.
    async fn restart_hub(self) -> Self {
        let Self { plexus, hub, model, token } = self;
        let address = hub.address().to_string();
        hub.kill().await;
        let hub = plexus.up_with(&["--listen", &address]).await;
        Self { plexus, hub, model, token }
    }

    /// Waits until the agent is between its two calls, restarts the hub and lets the agent go on.
    async fn restart_between_calls(self) -> Self {
        self.model.reached(BETWEEN).await;
        let scene = self.restart_hub().await;
        scene.model.release(BETWEEN);
        scene
    }
}

/// Adds, adds again and looks; with a point to stop at after the first.
fn script() -> Script {
    let todo = || Tool::ending("todo");
    Script::new()
        .turn(Turn::call(todo(), json!({ "action": "add", "text": "milk" })))
        .turn(Turn::call(todo(), json!({ "action": "add", "text": "bread" })).paused_at(BETWEEN))
        .turn(Turn::call(todo(), json!({ "action": "list" })))
        .turn(Turn::text("Both are on the list."))
}

/// What the agent got back, and what the hub has of it: one session of this key with every call once.
async fn check(scene: &Scene, agent: &str, key: &str) {
    let Scene { hub, model, .. } = scene;
    model.assert_played();
    let last = model.request_for(3);
    let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
    let [first, second, listed] = results.as_slice() else { panic!("{results:?}") };
    assert!(first.contains("milk") && !first.contains("bread"), "{first}");
    assert!(second.contains("milk") && second.contains("bread"), "{second}");
    assert!(listed.contains("milk") && listed.contains("bread"), "{listed}");

    let sessions = hub.list("/api/v1/sessions", |_| false).await;
    let [session] = sessions.as_slice() else { panic!("{sessions:#?}") };
    let owner = format!("agent:{agent}");
    assert_eq!((&session["key"], &session["owner"]), (&json!(key), &json!(owner)), "{session}");
    let id = session["id"].as_str().expect("an id");

    let calls = hub.list("/api/v1/audit", |_| false).await;
    let calls: Vec<&Value> = calls.iter().rev().filter(|call| call["tool"] == "todo").collect();
    let made: Vec<&Value> = calls.iter().map(|call| &call["arguments"]).collect();
    let add = |text: &str| json!({ "action": "add", "text": text });
    assert_eq!(made, [&add("milk"), &add("bread"), &json!({ "action": "list" })], "{calls:#?}");
    for call in calls {
        assert_eq!((&call["outcome"], &call["actor"]), (&json!("ok"), &json!(owner)), "{call}");
        assert_eq!((&call["session_id"], &call["via"]), (&json!(id), &json!("mcp")), "{call}");
    }

    let events = hub.events(id).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["tool_started", "tool_call"].repeat(3), "{events:#?}");
    assert!(events[1]["payload"]["success"] == true, "{}", events[1]);

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
