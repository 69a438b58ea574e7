//! The Codex command line.

use plexus_testkit::model::Script;
use plexus_testkit::{Agent, AgentHome};

use super::{
    BACK, BETWEEN, PROMPT, Scene, check, check_offer, check_patience, check_resumed, lines, patient_script,
    resumed_script, script, troubled_script,
};

/// The home with a configuration that names the hub and the model.
fn configured(home: AgentHome, scene: &Scene) -> AgentHome {
    let (hub, model) = (scene.hub.url("/mcp"), scene.model.openai_url());
    home.write(
        ".codex/config.toml",
        &format!(
            r#"
            # Codex hides the tools of MCP servers behind a search for models that it knows.
            model = "scripted"
            model_provider = "scripted"
            check_for_update_on_startup = false

            [analytics]
            enabled = false

            [model_providers.scripted]
            name = "scripted"
            base_url = "{model}"
            wire_api = "responses"
            requires_openai_auth = false

            [mcp_servers.plexus]
            url = "{hub}"
            bearer_token_env_var = "CODEX_PLEXUS_TOKEN"
            # `codex exec` has nobody to ask.
            default_tools_approval_mode = "approve"
            "#
        ),
    );
    let folder = home.path().join(".codex").display().to_string();
    home.with("CODEX_HOME", folder).with("CODEX_PLEXUS_TOKEN", &scene.token)
}

fn start(home: &AgentHome) -> Agent {
    home.start("codex", &["exec", "--json", "--skip-git-repo-check", PROMPT])
}

/// The end of a run that went well: the key of its session.
async fn end(agent: Agent) -> String {
    let ran = agent.end().await;
    let lines = lines(ran.ok());
    let started = lines.iter().find(|line| line["type"] == "thread.started");
    let thread = started.and_then(|line| line["thread_id"].as_str());
    format!("codex:{}", thread.unwrap_or_else(|| panic!("no thread: {lines:#?}")))
}

#[test]
fn codex_lists_the_hub() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", Script::new()).await;
        let home = configured(home, &scene);
        let ran = home.run("codex", &["mcp", "list"]).await;
        let line = ran.ok().lines().find(|line| line.starts_with("plexus")).expect("a line for the hub");
        for word in [scene.hub.url("/mcp").as_str(), "CODEX_PLEXUS_TOKEN", "enabled", "Bearer token"] {
            assert!(line.contains(word), "{word} is not in {line}");
        }
    });
}

#[test]
fn codex_works_through_the_hub_and_is_recorded_under_its_thread() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", script()).await;
        let home = configured(home, &scene);
        scene.model.release(BETWEEN);
        let key = end(start(&home)).await;
        check_offer(&scene);
        check(&scene, "codex", &key).await;
    });
}

#[test]
fn codex_goes_on_after_the_hub_was_killed_and_started_again() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", script()).await;
        let home = configured(home, &scene);
        let agent = start(&home);
        let scene = scene.restart_hub(BETWEEN, BETWEEN).await;
        let key = end(agent).await;
        check(&scene, "codex", &key).await;
    });
}

#[test]
fn codex_goes_on_after_a_call_that_met_no_hub() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", patient_script()).await;
        let home = configured(home, &scene);
        let agent = start(&home);
        let scene = scene.restart_hub(BETWEEN, BACK).await;
        let key = end(agent).await;
        check_patience(&scene, "codex", &key).await;
    });
}

#[test]
fn codex_asks_a_model_in_trouble_again_and_writes_once() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", troubled_script()).await;
        let home = configured(home, &scene);
        let key = end(start(&home)).await;
        check(&scene, "codex", &key).await;
    });
}

#[test]
fn codex_finds_its_list_again_when_a_thread_is_resumed() {
    AgentHome::on_loopback("codex", async |home| {
        let scene = Scene::set("codex", resumed_script()).await;
        let home = configured(home, &scene);
        let key = end(start(&home)).await;
        let thread = key.trim_start_matches("codex:");
        let args = ["exec", "resume", "--json", "--skip-git-repo-check", thread, "What is on it?"];
        assert_eq!(end(home.start("codex", &args)).await, key);
        check_resumed(&scene, "codex", &key).await;
    });
}
