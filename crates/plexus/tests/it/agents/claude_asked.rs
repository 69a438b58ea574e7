//! Claude Code as a client that is asked something in the middle of a call, by servers of the era that it does not speak.
//!
//! It is run without a terminal, so a hook answers for its user.

use std::time::Duration;

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::model::{Script, Tool, Turn};
use plexus_testkit::{AgentHome, stdio_fixture};
use serde_json::{Value, json};

use super::Scene;
use super::claude_code::{configured, end, start_with};

/// Makes the same program a client with sessions.
const OLD: (&str, &str) = ("MCP_PROTOCOL_NEGOTIATION", "legacy");
const WAITED: Duration = Duration::from_secs(30);

/// A model that calls one tool of the server, and is done.
fn script(tool: &str, arguments: Value) -> Script {
    Script::new().turn(Turn::call(Tool::ending(tool), arguments)).turn(Turn::text("done"))
}

/// Puts a server behind the hub; of its tools the model sees one.
async fn add_server(scene: &Scene, name: &str, tool: &str, mut document: Value) {
    document["tools"] = json!({ "allow": [tool] });
    let folder = scene.hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.json")), document.to_string()).unwrap();
    scene.plexus.run(&["upstream", "reload"]).await;
    let ready = async {
        while scene.hub.api(&format!("/api/v1/upstreams/{name}")).await["state"] != "ready" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAITED, ready).await.expect("the server is ready");
}

/// The settings with a hook that accepts with these fields, and writes what was asked into `asked.jsonl`.
fn answering(home: &AgentHome, content: &Value) -> String {
    let answer = json!({ "hookSpecificOutput": {
        "hookEventName": "Elicitation", "action": "accept", "content": content } });
    let asked = home.path().join("asked.jsonl");
    let command = format!("cat >> '{0}'; echo >> '{0}'; echo '{answer}'", asked.display());
    let hook = json!({ "type": "command", "timeout": 20, "command": command });
    let settings = json!({ "hooks": { "Elicitation": [{ "matcher": "", "hooks": [hook] }] } });
    home.write("hooks.json", &settings.to_string());
    home.path().join("hooks.json").display().to_string()
}

/// The questions that the hook was given.
fn asked(home: &AgentHome) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("asked.jsonl")).unwrap_or_default();
    let questions = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    questions.map(|question| question["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What the tool said to the model, and that it was one call.
async fn result(scene: &Scene, tool: &str) -> String {
    scene.model.assert_played();
    let page = scene.hub.api(&format!("/api/v1/audit?tool={tool}")).await;
    let Some([call]) = page["items"].as_array().map(Vec::as_slice) else { panic!("not one call: {page:#}") };
    assert_eq!(call["outcome"], "ok", "{call}");
    scene.model.request_for(1).results().map(|result| result.text.clone()).collect()
}

#[test]
fn claude_answers_a_question_of_a_2025_06_18_server() {
    AgentHome::on_loopback("claude-code", async |home| {
        let scene = Scene::set("claude", script("test_elicitation", json!({ "message": "Who?" }))).await;
        let server = stdio_fixture(Eras::Revision("2025-06-18"));
        add_server(&scene, "old", "test_elicitation", server).await;
        let home = configured(home, &scene).await;
        let hooks = answering(&home, &json!({ "username": "ann", "email": "ann@example.com" }));
        end(start_with(&home, &["--settings", &hooks])).await;
        let said = result(&scene, "mcp__old__test_elicitation").await;
        assert!(said.contains("action=accept") && said.contains("ann@example.com"), "{said}");
        assert_eq!(asked(&home), ["Who?"]);
    });
}

async fn stateless() -> HttpFixture {
    Fixture::new().only(Eras::Stateless).start().await
}

#[test]
fn claude_in_the_session_era_answers_an_input_required() {
    AgentHome::on_loopback("claude-code", async |home| {
        let tool = "test_input_required_result_multi_round";
        let scene = Scene::set("claude", script(tool, json!({}))).await;
        let server = stateless().await;
        add_server(&scene, "new", tool, json!({ "url": server.url() })).await;
        let home = configured(home, &scene).await.with(OLD.0, OLD.1);
        let hooks = answering(&home, &json!({ "name": "Ann", "color": "blue" }));
        end(start_with(&home, &["--settings", &hooks])).await;
        let said = result(&scene, &format!("mcp__new__{tool}")).await;
        assert!(said.contains("Ann") && said.contains("blue"), "{said}");
        assert_eq!(asked(&home), ["Step 1: What is your name?", "Step 2: What is your favorite color?"]);
    });
}

#[test]
fn claude_without_anybody_to_ask_ends_the_call_in_both_eras() {
    AgentHome::on_loopback("claude-code", async |home| {
        let mut home = home;
        for (name, value) in [("UNUSED", ""), OLD] {
            let scene = Scene::set("claude", script("test_elicitation", json!({ "message": "Who?" }))).await;
            let server = stateless().await;
            add_server(&scene, "new", "test_elicitation", json!({ "url": server.url() })).await;
            home.run("claude", &["mcp", "remove", "plexus"]).await;
            home = configured(home, &scene).await.with(name, value);
            end(start_with(&home, &[])).await;
            let said = result(&scene, "mcp__new__test_elicitation").await;
            assert!(said.contains("action=cancel") || said.contains("action=decline"), "{name}: {said}");
        }
    });
}
