//! The Claude Code command line.

use plexus_testkit::model::Script;
use plexus_testkit::{Agent, AgentHome};

use super::{
    BACK, BETWEEN, PROMPT, Scene, check, check_offer, check_patience, check_resumed, lines, patient_script,
    resumed_script, script, troubled_script,
};

/// Claude Code asks for a key before it speaks to anyone; the scripted model takes any.
const NO_KEY: &str = "none";

/// A conversation that is named before it begins.
const SESSION: &str = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";

/// The home in which the hub was added by a command, and the model by variables.
pub(super) async fn configured(home: AgentHome, scene: &Scene) -> AgentHome {
    let folder = home.path().join(".claude").display().to_string();
    let home = home
        .with("CLAUDE_CONFIG_DIR", folder)
        .with("CLAUDE_PLEXUS_TOKEN", &scene.token)
        .with("ANTHROPIC_BASE_URL", scene.model.url())
        .with("ANTHROPIC_API_KEY", NO_KEY)
        .with("ENABLE_TOOL_SEARCH", "false")
        .with("DISABLE_TELEMETRY", "1")
        .with("DISABLE_ERROR_REPORTING", "1")
        .with("DISABLE_AUTOUPDATER", "1")
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    let url = scene.hub.url("/mcp");
    // The names of variables, not their values: neither the arguments nor the file have the token.
    let token = "Authorization: Bearer ${CLAUDE_PLEXUS_TOKEN}";
    let session = "Plexus-Session: ${CLAUDE_PLEXUS_SESSION:-}";
    let add = ["mcp", "add", "--transport", "http", "plexus", &url, "--header", token, "--header", session];
    home.run("claude", &add).await.ok();
    let kept = std::fs::read_to_string(home.path().join(".claude/.claude.json")).expect("its settings");
    assert!(kept.contains("CLAUDE_PLEXUS_TOKEN") && !kept.contains(&scene.token), "the token is in the file");
    home
}

/// Starts a conversation of its own choice.
fn start(home: &AgentHome) -> Agent {
    start_with(home, &[])
}

/// Starts the conversation that the hub is told of.
fn start_named(home: AgentHome) -> (AgentHome, Agent) {
    let home = home.with("CLAUDE_PLEXUS_SESSION", SESSION);
    let agent = start_with(&home, &["--session-id", SESSION]);
    (home, agent)
}

pub(super) fn start_with(home: &AgentHome, more: &[&str]) -> Agent {
    let args = ["-p", "--output-format", "json", "--allowedTools", "mcp__plexus"];
    home.start("claude", &[&args, more, &["--", PROMPT]].concat())
}

/// The end of a run that went well: the id of its conversation.
pub(super) async fn end(agent: Agent) -> String {
    let ran = agent.end().await;
    let lines = lines(ran.ok());
    let session = lines.last().and_then(|line| line["session_id"].as_str());
    session.unwrap_or_else(|| panic!("no session: {lines:#?}")).to_owned()
}

#[test]
fn claude_lists_the_hub_as_connected() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", Script::new()).await;
        let home = configured(home, &scene).await;
        let ran = home.run("claude", &["mcp", "list"]).await;
        let line = ran.ok().lines().find(|line| line.starts_with("plexus:")).expect("a line for the hub");
        assert!(line.contains(&scene.hub.url("/mcp")) && line.ends_with("Connected"), "{line}");
    });
}

#[test]
fn claude_works_through_the_hub_and_is_recorded_under_its_session() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", script()).await;
        let home = configured(home, &scene).await;
        scene.model.release(BETWEEN);
        let (_home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        check_offer(&scene);
        check(&scene, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_is_recorded_under_its_token_when_nobody_names_its_session() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", script()).await;
        let home = configured(home, &scene).await;
        scene.model.release(BETWEEN);
        end(start(&home)).await;
        check(&scene, "claude", "external:claude-code:claude").await;
    });
}

#[test]
fn claude_goes_on_after_the_hub_was_killed_and_started_again() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", script()).await;
        let home = configured(home, &scene).await;
        let (_home, agent) = start_named(home);
        let scene = scene.restart_hub(BETWEEN, BETWEEN).await;
        assert_eq!(end(agent).await, SESSION);
        check(&scene, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_goes_on_after_a_call_that_met_no_hub() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", patient_script()).await;
        let home = configured(home, &scene).await;
        let (_home, agent) = start_named(home);
        let scene = scene.restart_hub(BETWEEN, BACK).await;
        assert_eq!(end(agent).await, SESSION);
        check_patience(&scene, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_asks_a_model_in_trouble_again_and_writes_once() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", troubled_script()).await;
        let home = configured(home, &scene).await;
        let (_home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        check(&scene, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_finds_its_list_again_when_a_session_is_resumed() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", resumed_script()).await;
        let home = configured(home, &scene).await;
        let (home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        assert_eq!(end(start_with(&home, &["--resume", SESSION])).await, SESSION);
        check_resumed(&scene, "claude", &format!("claude:{SESSION}")).await;
    });
}
