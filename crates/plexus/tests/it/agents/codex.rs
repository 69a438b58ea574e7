//! The Codex command line.

use plexus_testkit::model::Script;
use plexus_testkit::{Agent, AgentHome};

use super::{
    AgentSetup, BETWEEN_CALLS, HUB_DOWN, PROMPT, check, check_offered_tools, check_resumed, check_retried,
    codex_config, faulty_model_script, json_lines, resumed_script, retrying_script, script,
};

/// Configures Codex with the model and the hub.
fn configured(home: AgentHome, setup: &AgentSetup) -> AgentHome {
    let (model, hub) = (codex_config(&setup.model), setup.hub.url("/mcp"));
    // `codex exec` cannot ask a user for approval.
    let server = format!(
        "[mcp_servers.plexus]\nurl = \"{hub}\"\nbearer_token_env_var = \"CODEX_PLEXUS_TOKEN\"\n\
         default_tools_approval_mode = \"approve\"\n"
    );
    home.write(".codex/config.toml", &format!("{model}\n{server}"));
    let folder = home.path().join(".codex").display().to_string();
    home.with("CODEX_HOME", folder).with("CODEX_PLEXUS_TOKEN", &setup.token)
}

fn start(home: &AgentHome) -> Agent {
    home.start("codex", &["exec", "--json", "--skip-git-repo-check", PROMPT])
}

/// Waits for a successful end; returns the key of the session.
async fn end(agent: Agent) -> String {
    let output = agent.end().await;
    let lines = json_lines(output.ok());
    let started = lines.iter().find(|line| line["type"] == "thread.started");
    let thread = started.and_then(|line| line["thread_id"].as_str());
    format!("codex:{}", thread.unwrap_or_else(|| panic!("no thread: {lines:#?}")))
}

#[test]
fn codex_lists_the_hub() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", Script::new()).await;
        let home = configured(home, &setup);
        let output = home.run("codex", &["mcp", "list"]).await;
        let line = output.ok().lines().find(|line| line.starts_with("plexus")).expect("a line for the hub");
        for word in [setup.hub.url("/mcp").as_str(), "CODEX_PLEXUS_TOKEN", "enabled", "Bearer token"] {
            assert!(line.contains(word), "{word} is not in {line}");
        }
    });
}

#[test]
fn codex_calls_are_recorded_under_its_thread() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", script()).await;
        let home = configured(home, &setup);
        setup.model.release(BETWEEN_CALLS);
        let key = end(start(&home)).await;
        check_offered_tools(&setup);
        check(&setup, "codex", &key).await;
    });
}

#[test]
fn codex_continues_after_a_hub_restart() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", script()).await;
        let home = configured(home, &setup);
        let agent = start(&home);
        let setup = setup.restart_hub(BETWEEN_CALLS, BETWEEN_CALLS).await;
        let key = end(agent).await;
        check(&setup, "codex", &key).await;
    });
}

#[test]
fn codex_continues_after_a_call_without_a_hub() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", retrying_script()).await;
        let home = configured(home, &setup);
        let agent = start(&home);
        let setup = setup.restart_hub(BETWEEN_CALLS, HUB_DOWN).await;
        let key = end(agent).await;
        check_retried(&setup, "codex", &key).await;
    });
}

#[test]
fn codex_retries_a_failing_model_and_writes_once() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", faulty_model_script()).await;
        let home = configured(home, &setup);
        let key = end(start(&home)).await;
        check(&setup, "codex", &key).await;
    });
}

#[test]
fn resumed_codex_thread_finds_its_list() {
    AgentHome::on_loopback("codex", async |home| {
        let setup = AgentSetup::start("codex", resumed_script()).await;
        let home = configured(home, &setup);
        let key = end(start(&home)).await;
        let thread = key.trim_start_matches("codex:");
        let args = ["exec", "resume", "--json", "--skip-git-repo-check", thread, "What is on it?"];
        assert_eq!(end(home.start("codex", &args)).await, key);
        check_resumed(&setup, "codex", &key).await;
    });
}
