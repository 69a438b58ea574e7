//! The real agents under `plexus run`: they list the hub's tools and call one, and the session in which that is recorded
//! is the one that their own transcript is of.

use std::path::{Path, PathBuf};

use plexus_testkit::model::{Script, Turn};
use plexus_testkit::{AgentHome, HubProcess, Ran};
use serde_json::{Value, json};

use super::{BETWEEN, PROMPT, Scene, add, check_offer, lines, list, list_of, lists, script, todo};

/// A session that is named before it begins.
const SESSION: &str = "5b3f2f0e-6a43-4f0a-8f6b-0d7c9d1e2a33";

/// `plexus run` in the home of the agent, by whoever has the admin token.
fn home(home: AgentHome, scene: &Scene) -> AgentHome {
    let data = home.path().join("plexus").display().to_string();
    home.with("PLEXUS_HUB", scene.hub.url(""))
        .with("PLEXUS_TOKEN", scene.hub.admin_token())
        .with("PLEXUS_DATA_DIR", data)
}

async fn run(home: &AgentHome, args: &[&str]) -> Ran {
    home.run(env!("CARGO_BIN_EXE_plexus"), &[&["run"], args].concat()).await
}

fn claude(given: AgentHome, scene: &Scene) -> AgentHome {
    let folder = given.path().join(".claude").display().to_string();
    home(given, scene)
        .with("CLAUDE_CONFIG_DIR", folder)
        .with("ANTHROPIC_BASE_URL", scene.model.url())
        .with("ANTHROPIC_API_KEY", "none")
        .with("ENABLE_TOOL_SEARCH", "false")
        .with("DISABLE_TELEMETRY", "1")
        .with("DISABLE_ERROR_REPORTING", "1")
        .with("DISABLE_AUTOUPDATER", "1")
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
}

/// A configuration that knows the model, and nothing of a hub.
fn codex(given: AgentHome, scene: &Scene) -> AgentHome {
    given.write(
        ".codex/config.toml",
        &format!(
            r#"
            model = "scripted"
            model_provider = "scripted"
            check_for_update_on_startup = false

            [analytics]
            enabled = false

            [model_providers.scripted]
            name = "scripted"
            base_url = "{}"
            wire_api = "responses"
            requires_openai_auth = false
            "#,
            scene.model.openai_url()
        ),
    );
    let folder = given.path().join(".codex").display().to_string();
    home(given, scene).with("CODEX_HOME", folder)
}

/// The one session of runs, whose key this is: with every call once, and what became of the run around them.
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
    let told = events.iter().filter(|event| event["kind"] == "notification");
    let told: Vec<&Value> = told.map(|event| &event["payload"]["state"]).collect();
    assert_eq!(told, ["started", "exited"], "{events:#?}");
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let of_runs: Vec<&Value> = tokens.iter().filter(|token| token["kind"] == "session").collect();
    assert!(of_runs.iter().all(|token| token["revoked_at"].is_string()), "{of_runs:#?}");
}

/// Files below a folder whose name has this in it.
fn named(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(named(&path, part));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)) {
            found.push(path);
        }
    }
    found
}

fn check_list(scene: &Scene) {
    let both = list_of(&["milk", "bread"]);
    assert_eq!(lists(&scene.model, 3), [list_of(&["milk"]), both.clone(), both]);
}

#[test]
fn claude_works_under_a_runner_in_the_session_of_its_transcript() {
    AgentHome::on_loopback("claude-code", async |given| {
        let scene = Scene::set("unused", script()).await;
        let home = claude(given, &scene);
        scene.model.release(BETWEEN);
        let args =
            ["claude", "--", "-p", "--output-format", "json", "--allowedTools", "mcp__plexus", "--", PROMPT];
        let ran = run(&home, &args).await;
        let said = lines(ran.ok());
        let session = said.last().and_then(|line| line["session_id"].as_str()).expect("a session").to_owned();
        check_offer(&scene);
        check_list(&scene);
        check(&scene.hub, &format!("claude:{session}"), "/claude").await;
        let transcripts = named(&home.path().join(".claude/projects"), &session);
        assert_eq!(transcripts.len(), 1, "{transcripts:?}");
        assert_eq!(named(&home.path().join("plexus/runs"), "").len(), 0);
        // Nothing of the hub is in what Claude Code keeps for itself.
        let kept = std::fs::read_to_string(home.path().join(".claude/.claude.json")).unwrap_or_default();
        assert!(!kept.contains("PLEXUS_RUN_") && !kept.contains(&scene.hub.url("/mcp")), "{kept}");
    });
}

#[test]
fn claude_is_given_what_its_profile_says() {
    AgentHome::on_loopback("claude-code", async |given| {
        let scene = Scene::set("unused", Script::new().turn(todo(list())).turn(Turn::text("Nothing."))).await;
        let folder = scene.hub.data_dir().join("profiles/shopper");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("system_prompt.txt"), "You buy nothing but milk.\n").expect("a file");
        let skill = given.path().join("skills/haggle");
        std::fs::create_dir_all(&skill).expect("a folder");
        let about = "---\nname: haggle\ndescription: How to pay less for milk.\n---\nAsk twice.\n";
        std::fs::write(skill.join("SKILL.md"), about).expect("a file");
        let run_as = json!({
            "model": "claude-scripted-1", "allow_tools": true, "system_prompt": true, "status_line": true,
            "skills": [skill],
        });
        let config = json!({ "enabled_tools": ["todo"], "run": { "claude": run_as } });
        std::fs::write(folder.join("config.json"), config.to_string()).expect("a file");
        scene.plexus.run(&["tools", "call", "reload_tools"]).await.ok();
        // A server of the same name that was added by hand, and that nobody answers at.
        let by_hand =
            json!({ "mcpServers": { "plexus": { "type": "http", "url": "http://127.0.0.1:9/mcp" } } });
        given.write(".claude/.claude.json", &by_hand.to_string());
        let home = claude(given, &scene);
        let args = ["claude", "--profile", "shopper", "--name", SESSION, "--", "-p", "--", PROMPT];
        let ran = run(&home, &args).await;
        assert_eq!(ran.ok().trim(), "Nothing.", "{ran:?}");
        let request = scene.model.request_for(0);
        assert_eq!(request.asked.model, "claude-scripted-1");
        let asked = format!("{:?}", request.asked);
        assert!(asked.contains("You buy nothing but milk."), "{asked}");
        assert!(asked.contains("How to pay less for milk."), "{asked}");
        let tools: Vec<String> =
            request.tools().into_iter().filter(|tool| tool.starts_with("mcp__plexus__")).collect();
        assert_eq!(tools, ["mcp__plexus__todo"]);
    });
}

#[test]
fn codex_works_under_a_runner_in_the_session_of_its_transcript() {
    AgentHome::on_loopback("codex", async |given| {
        let scene = Scene::set("unused", script()).await;
        let home = codex(given, &scene);
        let before = std::fs::read_to_string(home.path().join(".codex/config.toml")).expect("its settings");
        scene.model.release(BETWEEN);
        // What it may do without asking is up to its user.
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        let args = ["codex", "--", "exec", "-c", approve, "--json", "--skip-git-repo-check", PROMPT];
        let ran = run(&home, &args).await;
        let said = lines(ran.ok());
        let started = said.iter().find(|line| line["type"] == "thread.started");
        let thread = started.and_then(|line| line["thread_id"].as_str()).expect("a thread").to_owned();
        check_offer(&scene);
        check_list(&scene);
        check(&scene.hub, &format!("codex:{thread}"), "/codex").await;
        let transcripts = named(&home.path().join(".codex/sessions"), &thread);
        assert_eq!(transcripts.len(), 1, "{transcripts:?}");
        let after = std::fs::read_to_string(home.path().join(".codex/config.toml")).expect("its settings");
        assert_eq!(after, before);
    });
}

/// The home of an opencode that knows the model; none where its program is for another machine.
fn opencode(given: AgentHome, scene: &Scene) -> Option<AgentHome> {
    let programs = given.installed("node_modules/opencode-linux-x64/bin");
    if !programs.join("opencode").exists() {
        eprintln!("opencode is installed for x86-64 Linux only");
        return None;
    }
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": scene.model.openai_url(), "apiKey": "none" },
        "models": { "scripted": { "name": "Scripted", "tool_call": true } },
    });
    let config = json!({
        "$schema": "https://opencode.ai/config.json", "provider": { "scripted": provider }, "model": "scripted/scripted", "small_model": "scripted/scripted",
        "autoupdate": false, "share": "disabled",
    });
    given.write(".config/opencode/opencode.json", &config.to_string());
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let home = home(given, scene).with("PATH", path);
    Some(home.with("OPENCODE_DISABLE_MODELS_FETCH", "1").with("OPENCODE_DISABLE_AUTOUPDATE", "1"))
}

#[test]
fn opencode_works_under_a_runner_in_a_session_of_its_own() {
    AgentHome::on_loopback("opencode", async |given| {
        let scene = Scene::set("unused", script()).await;
        let Some(home) = opencode(given, &scene) else { return };
        scene.model.release(BETWEEN);
        let config = home.path().join(".config/opencode/opencode.json");
        let before = std::fs::read_to_string(&config).expect("its settings");
        let ran = run(&home, &["opencode", "--name", "shopping", "--", "run", PROMPT]).await;
        assert!(ran.ok().contains("Both are on the list."), "{ran:?}");
        let offered = scene.model.request_for(0).tools();
        assert!(offered.iter().any(|tool| tool == "plexus_todo"), "{offered:?}");
        // It tells the model the text of a result, and not its data.
        scene.model.assert_played();
        let last = scene.model.request_for(3);
        let said = last.results().last().expect("a result").text.clone();
        assert!(said.contains("milk") && said.contains("bread"), "{said}");
        check(&scene.hub, "external:opencode:shopping", "/opencode").await;
        assert_eq!(std::fs::read_to_string(&config).expect("its settings"), before);
    });
}
