//! Elicitation through the hub between Claude Code and servers of the era that it does not speak.
//!
//! Claude Code runs without a terminal, so a hook answers for its user.

use plexus_testkit::fixture::{Eras, Fixture, HttpFixture};
use plexus_testkit::model::{Script, Tool, Turn};
use plexus_testkit::{AgentHome, stdio_fixture};
use serde_json::{Value, json};

use super::AgentSetup;
use super::claude_code::{configured, end, start_with};

/// The variable that makes Claude Code a client of the session era.
const SESSION_ERA: (&str, &str) = ("MCP_PROTOCOL_NEGOTIATION", "legacy");

/// A model that calls one tool and ends.
fn script(tool: &str, arguments: Value) -> Script {
    Script::new().turn(Turn::call(Tool::ending(tool), arguments)).turn(Turn::text("done"))
}

/// Adds a server to the hub; the model sees only one of its tools.
async fn add_server(setup: &AgentSetup, name: &str, tool: &str, mut document: Value) {
    document["tools"] = json!({ "allow": [tool] });
    let folder = setup.hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.json")), document.to_string()).unwrap();
    setup.plexus.run(&["upstream", "reload"]).await;
    setup.hub.api_until(&format!("/api/v1/upstreams/{name}"), |server| server["state"] == "ready").await;
}

/// Settings with a hook that accepts with these fields and appends each question to `asked.jsonl`.
fn accepting_hook(home: &AgentHome, content: &Value) -> String {
    let answer = json!({ "hookSpecificOutput": {
        "hookEventName": "Elicitation", "action": "accept", "content": content } });
    let file = home.path().join("asked.jsonl");
    let command = format!("cat >> '{0}'; echo >> '{0}'; echo '{answer}'", file.display());
    let hook = json!({ "type": "command", "timeout": 20, "command": command });
    let settings = json!({ "hooks": { "Elicitation": [{ "matcher": "", "hooks": [hook] }] } });
    home.write("hooks.json", &settings.to_string());
    home.path().join("hooks.json").display().to_string()
}

/// The questions that the hook answered.
fn questions_asked(home: &AgentHome) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("asked.jsonl")).unwrap_or_default();
    let questions = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    questions.map(|question| question["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The result that the model got. Checks that it was one successful call.
async fn tool_result(setup: &AgentSetup, tool: &str) -> String {
    setup.model.assert_played();
    let page = setup.hub.api(&format!("/api/v1/audit?tool={tool}")).await;
    let Some([call]) = page["items"].as_array().map(Vec::as_slice) else { panic!("not one call: {page:#}") };
    assert_eq!(call["outcome"], "ok", "{call}");
    setup.model.request_for(1).results().map(|result| result.text.clone()).collect()
}

#[test]
fn claude_answers_elicitation_of_a_2025_06_18_server() {
    AgentHome::on_loopback("claude-code", async |home| {
        let setup =
            AgentSetup::start("claude", script("test_elicitation", json!({ "message": "Who?" }))).await;
        let server = stdio_fixture(Eras::Revision("2025-06-18"));
        add_server(&setup, "old", "test_elicitation", server).await;
        let home = configured(home, &setup).await;
        let hooks = accepting_hook(&home, &json!({ "username": "ann", "email": "ann@example.com" }));
        end(start_with(&home, &["--settings", &hooks])).await;
        let result = tool_result(&setup, "mcp__old__test_elicitation").await;
        assert!(result.contains("action=accept") && result.contains("ann@example.com"), "{result}");
        assert_eq!(questions_asked(&home), ["Who?"]);
    });
}

async fn stateless() -> HttpFixture {
    Fixture::new().only(Eras::Stateless).start().await
}

#[test]
fn session_era_claude_answers_input_required() {
    AgentHome::on_loopback("claude-code", async |home| {
        let tool = "test_input_required_result_multi_round";
        let setup = AgentSetup::start("claude", script(tool, json!({}))).await;
        let server = stateless().await;
        add_server(&setup, "new", tool, json!({ "url": server.url() })).await;
        let home = configured(home, &setup).await.with(SESSION_ERA.0, SESSION_ERA.1);
        let hooks = accepting_hook(&home, &json!({ "name": "Ann", "color": "blue" }));
        end(start_with(&home, &["--settings", &hooks])).await;
        let result = tool_result(&setup, &format!("mcp__new__{tool}")).await;
        assert!(result.contains("Ann") && result.contains("blue"), "{result}");
        assert_eq!(
            questions_asked(&home),
            ["Step 1: What is your name?", "Step 2: What is your favorite color?"]
        );
    });
}

#[test]
fn claude_without_a_user_ends_the_call_in_both_eras() {
    AgentHome::on_loopback("claude-code", async |home| {
        let mut home = home;
        for (name, value) in [("UNUSED", ""), SESSION_ERA] {
            let setup =
                AgentSetup::start("claude", script("test_elicitation", json!({ "message": "Who?" }))).await;
            let server = stateless().await;
            add_server(&setup, "new", "test_elicitation", json!({ "url": server.url() })).await;
            home.run("claude", &["mcp", "remove", "plexus"]).await;
            home = configured(home, &setup).await.with(name, value);
            end(start_with(&home, &[])).await;
            let result = tool_result(&setup, "mcp__new__test_elicitation").await;
            assert!(
                result.contains("action=cancel") || result.contains("action=decline"),
                "{name}: {result}"
            );
        }
    });
}
