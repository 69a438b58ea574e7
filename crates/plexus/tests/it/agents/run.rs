//! Real agents under `plexus run`: they list the hub's tools and call one, and the calls are recorded in the session of
//! their own transcript.

use std::path::{Path, PathBuf};

use plexus_testkit::model::{Script, Turn};
use plexus_testkit::{AgentHome, HubProcess, ProgramOutput};
use serde_json::{Value, json};

use super::{
    AgentSetup, BETWEEN_CALLS, PROMPT, add, check_offered_tools, codex_config, json_lines, list, list_of,
    lists_seen_by_model, script, todo, with_claude_model, with_opencode,
};

/// The id of a session, chosen before it begins.
const SESSION: &str = "5b3f2f0e-6a43-4f0a-8f6b-0d7c9d1e2a33";

/// `plexus run` with the admin token, in the home of the agent.
fn home(home: AgentHome, setup: &AgentSetup) -> AgentHome {
    let data = home.path().join("plexus").display().to_string();
    home.with("PLEXUS_HUB", setup.hub.url(""))
        .with("PLEXUS_TOKEN", setup.hub.admin_token())
        .with("PLEXUS_DATA_DIR", data)
}

async fn run(home: &AgentHome, args: &[&str]) -> ProgramOutput {
    home.run(env!("CARGO_BIN_EXE_plexus"), &[&["run"], args].concat()).await
}

fn claude(agent_home: AgentHome, setup: &AgentSetup) -> AgentHome {
    let folder = agent_home.path().join(".claude").display().to_string();
    with_claude_model(home(agent_home, setup), &setup.model).with("CLAUDE_CONFIG_DIR", folder)
}

/// Configures Codex with the model, and no hub.
fn codex(agent_home: AgentHome, setup: &AgentSetup) -> AgentHome {
    agent_home.write(".codex/config.toml", &codex_config(&setup.model));
    let folder = agent_home.path().join(".codex").display().to_string();
    home(agent_home, setup).with("CODEX_HOME", folder)
}

/// The run has one session, with this key, that contains every call once between start and exit of the agent.
async fn check(hub: &HubProcess, key: &str, owner_ends: &str) {
    let mut sessions = hub.list("/api/v1/sessions", |_| false).await;
    sessions.retain(|session| session["owner"] != "hub");
    let [session] = sessions.as_slice() else { panic!("{sessions:#?}") };
    assert_eq!(session["key"], key, "{session}");
    let owner = session["owner"].as_str().expect("an owner");
    assert!(owner.starts_with("session:") && owner.ends_with(owner_ends), "{owner}");
    let calls = hub.list("/api/v1/audit", |_| false).await;
    let calls: Vec<&Value> = calls.iter().rev().filter(|call| call["via"] == "mcp").collect();
    let made: Vec<&Value> = calls.iter().map(|call| &call["arguments"]).collect();
    assert_eq!(made, [&add("milk"), &add("bread"), &list()], "{calls:#?}");
    for call in calls {
        assert_eq!((&call["session_id"], &call["actor"]), (&session["id"], &json!(owner)), "{call}");
    }
    let events = hub.events(session["id"].as_str().expect("an id")).await;
    let states = events.iter().filter(|event| event["kind"] == "notification");
    let states: Vec<&Value> = states.map(|event| &event["payload"]["state"]).collect();
    assert_eq!(states, ["started", "exited"], "{events:#?}");
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let of_runs: Vec<&Value> = tokens.iter().filter(|token| token["kind"] == "session").collect();
    assert!(of_runs.iter().all(|token| token["revoked_at"].is_string()), "{of_runs:#?}");
}

/// Files below a folder whose name contains `part`.
fn files_named(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_named(&path, part));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)) {
            found.push(path);
        }
    }
    found
}

fn check_list(setup: &AgentSetup) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists_seen_by_model(&setup.model, 3), [list_of(&["milk"]), both.clone(), both]);
}

#[test]
fn claude_run_uses_the_session_of_its_transcript() {
    AgentHome::on_loopback("claude-code", async |agent_home| {
        let setup = AgentSetup::start("unused", script()).await;
        let home = claude(agent_home, &setup);
        setup.model.release(BETWEEN_CALLS);
        let args =
            ["claude", "--", "-p", "--output-format", "json", "--allowedTools", "mcp__plexus", "--", PROMPT];
        let run_output = run(&home, &args).await;
        let output = json_lines(run_output.ok());
        let session =
            output.last().and_then(|line| line["session_id"].as_str()).expect("a session").to_owned();
        check_offered_tools(&setup);
        check_list(&setup);
        check(&setup.hub, &format!("claude:{session}"), "/claude").await;
        let transcripts = files_named(&home.path().join(".claude/projects"), &session);
        assert_eq!(transcripts.len(), 1, "{transcripts:?}");
        assert_eq!(files_named(&home.path().join("plexus/runs"), "").len(), 0);
        // Claude Code's own settings contain nothing of the hub.
        let settings = std::fs::read_to_string(home.path().join(".claude/.claude.json")).unwrap_or_default();
        assert!(
            !settings.contains("PLEXUS_RUN_") && !settings.contains(&setup.hub.url("/mcp")),
            "{settings}"
        );
    });
}

#[test]
fn claude_run_applies_the_profile() {
    AgentHome::on_loopback("claude-code", async |agent_home| {
        let setup =
            AgentSetup::start("unused", Script::new().turn(todo(list())).turn(Turn::text("Nothing."))).await;
        let folder = setup.hub.data_dir().join("profiles/shopper");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("system_prompt.txt"), "You buy nothing but milk.\n").expect("a file");
        let skill = agent_home.path().join("skills/haggle");
        std::fs::create_dir_all(&skill).expect("a folder");
        let about = "---\nname: haggle\ndescription: How to pay less for milk.\n---\nAsk twice.\n";
        std::fs::write(skill.join("SKILL.md"), about).expect("a file");
        let run_as = json!({
            "model": "claude-scripted-1", "allow_tools": true, "system_prompt": true, "status_line": true,
            "skills": [skill],
        });
        let config = json!({ "enabled_tools": ["todo"], "run": { "claude": run_as } });
        std::fs::write(folder.join("config.json"), config.to_string()).expect("a file");
        setup.plexus.run(&["tools", "call", "reload_tools"]).await.ok();
        // A server of the same name, added by hand, that does not answer.
        let by_hand =
            json!({ "mcpServers": { "plexus": { "type": "http", "url": "http://127.0.0.1:9/mcp" } } });
        agent_home.write(".claude/.claude.json", &by_hand.to_string());
        let home = claude(agent_home, &setup);
        let args = ["claude", "--profile", "shopper", "--name", SESSION, "--", "-p", "--", PROMPT];
        let run_output = run(&home, &args).await;
        assert_eq!(run_output.ok().trim(), "Nothing.", "{run_output:?}");
        let request = setup.model.request_for(0);
        assert_eq!(request.parsed.model, "claude-scripted-1");
        let prompt_text = format!("{:?}", request.parsed);
        assert!(prompt_text.contains("You buy nothing but milk."), "{prompt_text}");
        assert!(prompt_text.contains("How to pay less for milk."), "{prompt_text}");
        let tools: Vec<String> =
            request.tools().into_iter().filter(|tool| tool.starts_with("mcp__plexus__")).collect();
        assert_eq!(tools, ["mcp__plexus__todo"]);
    });
}

#[test]
fn codex_run_uses_the_session_of_its_transcript() {
    AgentHome::on_loopback("codex", async |agent_home| {
        let setup = AgentSetup::start("unused", script()).await;
        let home = codex(agent_home, &setup);
        let before = std::fs::read_to_string(home.path().join(".codex/config.toml")).expect("its settings");
        setup.model.release(BETWEEN_CALLS);
        // Which tools need no approval is decided by the user.
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        let args = ["codex", "--", "exec", "-c", approve, "--json", "--skip-git-repo-check", PROMPT];
        let run_output = run(&home, &args).await;
        let output = json_lines(run_output.ok());
        let started = output.iter().find(|line| line["type"] == "thread.started");
        let thread = started.and_then(|line| line["thread_id"].as_str()).expect("a thread").to_owned();
        check_offered_tools(&setup);
        check_list(&setup);
        check(&setup.hub, &format!("codex:{thread}"), "/codex").await;
        let transcripts = files_named(&home.path().join(".codex/sessions"), &thread);
        assert_eq!(transcripts.len(), 1, "{transcripts:?}");
        let after = std::fs::read_to_string(home.path().join(".codex/config.toml")).expect("its settings");
        assert_eq!(after, before);
    });
}

/// Configures opencode with the model; `None` on a machine that it is not installed for.
fn opencode(agent_home: AgentHome, setup: &AgentSetup) -> Option<AgentHome> {
    let (agent_home, _) = with_opencode(agent_home)?;
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": setup.model.openai_url(), "apiKey": "none" },
        "models": { "scripted": { "name": "Scripted", "tool_call": true } },
    });
    let config = json!({
        "$schema": "https://opencode.ai/config.json", "provider": { "scripted": provider }, "model": "scripted/scripted", "small_model": "scripted/scripted",
        "autoupdate": false, "share": "disabled",
    });
    agent_home.write(".config/opencode/opencode.json", &config.to_string());
    Some(home(agent_home, setup))
}

#[test]
fn opencode_run_uses_the_named_session() {
    AgentHome::on_loopback("opencode", async |agent_home| {
        let setup = AgentSetup::start("unused", script()).await;
        let Some(home) = opencode(agent_home, &setup) else { return };
        setup.model.release(BETWEEN_CALLS);
        let config = home.path().join(".config/opencode/opencode.json");
        let before = std::fs::read_to_string(&config).expect("its settings");
        let run_output = run(&home, &["opencode", "--name", "shopping", "--", "run", PROMPT]).await;
        assert!(run_output.ok().contains("Both are on the list."), "{run_output:?}");
        let offered = setup.model.request_for(0).tools();
        assert!(offered.iter().any(|tool| tool == "plexus_todo"), "{offered:?}");
        // opencode passes the text of a result to the model, not its structured content.
        setup.model.assert_played();
        let last = setup.model.request_for(3);
        let output = last.results().last().expect("a result").text.clone();
        assert!(output.contains("milk") && output.contains("bread"), "{output}");
        check(&setup.hub, "external:opencode:shopping", "/opencode").await;
        assert_eq!(std::fs::read_to_string(&config).expect("its settings"), before);
    });
}
