//! The Claude Code command line.

use plexus_testkit::model::Script;
use plexus_testkit::{Agent, AgentHome};

use super::{
    AgentSetup, BETWEEN_CALLS, HUB_DOWN, PROMPT, check, check_offered_tools, check_resumed, check_retried,
    faulty_model_script, json_lines, resumed_script, retrying_script, script, with_claude_model,
};

/// The id of a conversation, chosen before it begins.
const SESSION: &str = "7d0f1c52-3a64-4c1e-9b0d-5f2a8e6b9c11";

/// Adds the hub to Claude Code's settings.
pub(super) async fn configured(home: AgentHome, setup: &AgentSetup) -> AgentHome {
    let folder = home.path().join(".claude").display().to_string();
    let home = with_claude_model(home, &setup.model)
        .with("CLAUDE_CONFIG_DIR", folder)
        .with("CLAUDE_PLEXUS_TOKEN", &setup.token);
    let url = setup.hub.url("/mcp");
    // Names of variables, not values: neither the arguments nor the file contain the token.
    let token = "Authorization: Bearer ${CLAUDE_PLEXUS_TOKEN}";
    let session = "Plexus-Session: ${CLAUDE_PLEXUS_SESSION:-}";
    let add = ["mcp", "add", "--transport", "http", "plexus", &url, "--header", token, "--header", session];
    home.run("claude", &add).await.ok();
    let settings = std::fs::read_to_string(home.path().join(".claude/.claude.json")).expect("its settings");
    assert!(
        settings.contains("CLAUDE_PLEXUS_TOKEN") && !settings.contains(&setup.token),
        "the token is in the file"
    );
    home
}

/// Starts a conversation whose id Claude Code chooses.
fn start(home: &AgentHome) -> Agent {
    start_with(home, &[])
}

/// Starts the conversation [`SESSION`], whose id is also sent to the hub.
fn start_named(home: AgentHome) -> (AgentHome, Agent) {
    let home = home.with("CLAUDE_PLEXUS_SESSION", SESSION);
    let agent = start_with(&home, &["--session-id", SESSION]);
    (home, agent)
}

pub(super) fn start_with(home: &AgentHome, more: &[&str]) -> Agent {
    let args = ["-p", "--output-format", "json", "--allowedTools", "mcp__plexus"];
    home.start("claude", &[&args, more, &["--", PROMPT]].concat())
}

/// Waits for a successful end; returns the id of the conversation.
pub(super) async fn end(agent: Agent) -> String {
    let output = agent.end().await;
    let lines = json_lines(output.ok());
    let session = lines.last().and_then(|line| line["session_id"].as_str());
    session.unwrap_or_else(|| panic!("no session: {lines:#?}")).to_owned()
}

#[test]
fn claude_lists_the_hub_as_connected() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", Script::new()).await;
        let home = configured(home, &setup).await;
        let output = home.run("claude", &["mcp", "list"]).await;
        let line = output.ok().lines().find(|line| line.starts_with("plexus:")).expect("a line for the hub");
        assert!(line.contains(&setup.hub.url("/mcp")) && line.ends_with("Connected"), "{line}");
    });
}

#[test]
fn claude_calls_are_recorded_under_its_session() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", script()).await;
        let home = configured(home, &setup).await;
        setup.model.release(BETWEEN_CALLS);
        let (_home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        check_offered_tools(&setup);
        check(&setup, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_without_session_id_is_recorded_under_its_token() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", script()).await;
        let home = configured(home, &setup).await;
        setup.model.release(BETWEEN_CALLS);
        end(start(&home)).await;
        check(&setup, "claude", "external:claude-code:claude").await;
    });
}

#[test]
fn claude_continues_after_a_hub_restart() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", script()).await;
        let home = configured(home, &setup).await;
        let (_home, agent) = start_named(home);
        let setup = setup.restart_hub(BETWEEN_CALLS, BETWEEN_CALLS).await;
        assert_eq!(end(agent).await, SESSION);
        check(&setup, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_continues_after_a_call_without_a_hub() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", retrying_script()).await;
        let home = configured(home, &setup).await;
        let (_home, agent) = start_named(home);
        let setup = setup.restart_hub(BETWEEN_CALLS, HUB_DOWN).await;
        assert_eq!(end(agent).await, SESSION);
        check_retried(&setup, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn claude_retries_a_failing_model_and_writes_once() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", faulty_model_script()).await;
        let home = configured(home, &setup).await;
        let (_home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        check(&setup, "claude", &format!("claude:{SESSION}")).await;
    });
}

#[test]
fn resumed_claude_session_finds_its_list() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup = AgentSetup::start("claude", resumed_script()).await;
        let home = configured(home, &setup).await;
        let (home, agent) = start_named(home);
        assert_eq!(end(agent).await, SESSION);
        assert_eq!(end(start_with(&home, &["--resume", SESSION])).await, SESSION);
        check_resumed(&setup, "claude", &format!("claude:{SESSION}")).await;
    });
}
