//! The real Codex and Claude Code as clients of a hub, with a scripted model.
//!
//! Hub, model and agent run in a network namespace with loopback only. The agents have no credentials but a
//! token of that hub.

mod claude_code;
mod claude_elicitation;
mod codex;
mod connect;
mod new_user;
mod run;

use std::time::Duration;

use plexus_testkit::model::{Fault, Script, ScriptedModel, Tool, Turn};
use plexus_testkit::{AgentHome, HubProcess, Plexus};
use serde_json::{Value, json};

/// Points at which the model waits for the test.
const BETWEEN_CALLS: &str = "between two calls";
const HUB_DOWN: &str = "before the hub is back";
const PROMPT: &str = "Keep my shopping list.";

/// A hub and a model for an agent, and the agent's token.
struct AgentSetup {
    plexus: Plexus,
    hub: HubProcess,
    model: ScriptedModel,
    /// Has the agent's name.
    token: String,
}

impl AgentSetup {
    async fn start(agent: &str, script: Script) -> Self {
        let plexus = crate::plexus();
        let hub = plexus.up().await;
        let token = hub.token(agent).await.token;
        Self { plexus, hub, model: ScriptedModel::start(script).await, token }
    }

    /// Kills the hub when the model is at one point, and starts it again, with the same address and folder, when
    /// the model is at the other, which may be the same.
    async fn restart_hub(self, killed_at: &str, back_at: &str) -> Self {
        let Self { plexus, hub, model, token } = self;
        let address = hub.address().to_string();
        model.wait_until_reached(killed_at).await;
        hub.kill().await;
        if back_at != killed_at {
            model.release(killed_at);
            model.wait_until_reached(back_at).await;
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

/// Adds two entries and lists them; waits between the two.
fn script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")).paused_at(BETWEEN_CALLS))
        .turn(todo(list()))
        .turn(Turn::text("Both are on the list."))
}

/// The same, with a different fault of the model in each turn.
fn faulty_model_script() -> Script {
    let limited = Fault::RateLimited { retry_after: Duration::from_secs(1) };
    Script::new()
        .turn(todo(add("milk")).failing(Fault::CutOff))
        .turn(todo(add("bread")).failing(Fault::Overloaded))
        .turn(todo(list()).failing(Fault::Broken))
        .turn(Turn::text("Both are on the list.").failing(limited))
}

/// The same by a model that retries the call that fails while the hub is down.
fn retrying_script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")).paused_at(BETWEEN_CALLS))
        .turn(todo(add("bread")).paused_at(HUB_DOWN))
        .turn(todo(list()))
        .turn(Turn::text("Both are on the list."))
}

/// Adds two entries, ends, and lists them when the conversation is resumed.
fn resumed_script() -> Script {
    Script::new()
        .turn(todo(add("milk")))
        .turn(todo(add("bread")))
        .turn(Turn::text("Both are on the list."))
        .turn(todo(list()))
        .turn(Turn::text("Both are still there."))
}

/// The to-do lists in the tool results that the model got up to turn `last`; `None` for an error.
fn lists_seen_by_model(model: &ScriptedModel, last: usize) -> Vec<Option<Vec<String>>> {
    model.assert_played();
    let on_list = |text: &str| {
        // Codex puts a line or two in front of it.
        let list: Value = serde_json::from_str(&text[text.find("{\"items\"")?..]).ok()?;
        let texts = list["items"].as_array()?.iter().map(|item| item["text"].as_str().unwrap_or_default());
        Some(texts.map(str::to_owned).collect())
    };
    model.request_for(last).results().map(|result| on_list(&result.text)).collect()
}

fn list_of(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

/// The model saw the list grow by both entries, and the hub has the records.
async fn check(setup: &AgentSetup, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists_seen_by_model(&setup.model, 3), [list_of(&["milk"]), both.clone(), both]);
    check_records(&setup.hub, agent, key).await;
}

/// The list was complete when the conversation was resumed.
async fn check_resumed(setup: &AgentSetup, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists_seen_by_model(&setup.model, 4), [list_of(&["milk"]), both.clone(), both]);
    check_records(&setup.hub, agent, key).await;
}

/// The call without a hub failed, and all later ones succeeded.
async fn check_retried(setup: &AgentSetup, agent: &str, key: &str) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists_seen_by_model(&setup.model, 4), [list_of(&["milk"]), None, both.clone(), both]);
    check_records(&setup.hub, agent, key).await;
}

/// The agent has one session, with this key, that contains every call once.
async fn check_records(hub: &HubProcess, agent: &str, key: &str) {
    let mut sessions = hub.list("/api/v1/sessions", |_| false).await;
    // The hub's own session, with events of its machines.
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

/// The model was offered the tools of the hub, under the name of its entry.
fn check_offered_tools(setup: &AgentSetup) {
    let offered = setup.model.request_for(0).tools();
    for tool in ["list_tools", "scratchpad", "session_info", "todo", "tool_call", "tool_search"] {
        assert!(offered.contains(&format!("mcp__plexus__{tool}")), "{tool} is not among {offered:?}");
    }
}

/// A Codex configuration with the scripted model and no hub. Codex hides MCP tools behind a search for models that
/// it knows, and it does not know this one.
fn codex_config(model: &ScriptedModel) -> String {
    format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\n\
         [analytics]\nenabled = false\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
         wire_api = \"responses\"\nrequires_openai_auth = false\n",
        model.openai_url()
    )
}

/// Configures Claude Code by variables: the scripted model, and no other traffic.
fn with_claude_model(home: AgentHome, model: &ScriptedModel) -> AgentHome {
    home.with("ANTHROPIC_BASE_URL", model.url())
        // Claude Code needs a key to start; the scripted model accepts any.
        .with("ANTHROPIC_API_KEY", "none")
        .with("ENABLE_TOOL_SEARCH", "false")
        .with("DISABLE_TELEMETRY", "1")
        .with("DISABLE_ERROR_REPORTING", "1")
        .with("DISABLE_AUTOUPDATER", "1")
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
}

/// A home whose path has opencode, and the program itself; `None` on a machine that it is not installed for.
fn with_opencode(home: AgentHome) -> Option<(AgentHome, String)> {
    let folder = home.installed("node_modules/opencode-linux-x64/bin");
    let program = folder.join("opencode");
    if !program.exists() {
        eprintln!("skipped: opencode is installed for x86-64 Linux only");
        return None;
    }
    let home = home
        .with("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .with("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .with("OPENCODE_DISABLE_AUTOUPDATE", "1");
    Some((home, program.display().to_string()))
}

/// The lines of an agent's output that are JSON.
fn json_lines(stdout: &str) -> Vec<Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
