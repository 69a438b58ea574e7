//! Real agents connected by `plexus connect`: Codex and Claude Code list the connection, call a tool of the hub and one of
//! a node, know the workspace, and are restored by `plexus disconnect`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plexus_testkit::model::{Script, ScriptedModel, Tool, Turn};
use plexus_testkit::{AgentHome, HubProcess, Pinned, Plexus, ProgramOutput};
use serde_json::{Value, json};

use super::{PROMPT, add, codex_config, json_lines, todo, with_claude_model, with_opencode};
use crate::nodes::{join, start_node, wait_for_state};

/// The content of the hub's workspace.
const USER: &str = "The person you work for collects teapots.";
/// The output of the command on the node.
const COMMAND_OUTPUT: &str = "from the machine called bench";

fn command() -> Turn {
    let arguments = json!({ "action": "run", "command": "cat \"$HOME/words\"" });
    Turn::call(Tool::ending("terminal"), arguments)
}

fn script() -> Script {
    Script::new().turn(todo(add("milk"))).turn(command()).turn(Turn::text("Done."))
}

/// A home with both agents, which use their models and no hub yet.
fn home(agent_home: AgentHome, claude: &Pinned, models: [&ScriptedModel; 2], hub: &HubProcess) -> AgentHome {
    let path =
        format!("{}:{}:/usr/bin:/bin", agent_home.installed("bin").display(), claude.path("bin").display());
    agent_home.write(".codex/config.toml", &format!("# Mine.\n{}", codex_config(models[0])));
    agent_home.write(".codex/AGENTS.md", "# My rules\n\nSpeak plainly.\n");
    let codex = agent_home.path().join(".codex").display().to_string();
    with_claude_model(agent_home, models[1])
        .with("PATH", path)
        .with("CODEX_HOME", codex)
        .with("PLEXUS_DATA_DIR", hub.data_dir().display().to_string())
}

async fn plexus(home: &AgentHome, args: &[&str]) -> ProgramOutput {
    home.run(env!("CARGO_BIN_EXE_plexus"), args).await
}

/// All files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Codex creates links to itself there whenever it starts.
        if path.ends_with(".codex/tmp") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
        }
    }
    found
}

/// Files that were created, deleted or changed.
fn changed<'f>(
    before: &'f BTreeMap<PathBuf, Vec<u8>>,
    after: &'f BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<&'f PathBuf> {
    let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    all.filter(|path| before.get(*path) != after.get(*path)).collect()
}

/// An online node called `bench`.
async fn bench_node(plexus: &Plexus, hub: &HubProcess) -> (Plexus, tokio::process::Child) {
    let bench = crate::plexus();
    std::fs::write(bench.home().join("words"), COMMAND_OUTPUT).expect("a file");
    join(plexus, &bench, &hub.url(""), "bench", &[]).await;
    let node = start_node(&bench, "ws");
    wait_for_state(plexus, "bench", "online").await;
    (bench, node)
}

#[test]
fn connected_agents_use_hub_and_node_and_are_restored_on_disconnect() {
    AgentHome::on_loopback("codex", async |agent_home| {
        let hub_home = crate::plexus();
        let hub = hub_home.up().await;
        let models = (ScriptedModel::start(script()).await, ScriptedModel::start(script()).await);
        let _bench = bench_node(&hub_home, &hub).await;
        let workspace = hub.data_dir().join("workspace");
        std::fs::create_dir(&workspace).expect("a folder");
        std::fs::write(workspace.join("USER.md"), USER).expect("a file");
        let claude_code = Pinned::npm("claude-code").await.expect("Claude Code is installed");
        let home = home(agent_home, &claude_code, [&models.0, &models.1], &hub);
        let claude = claude_code.path("bin/claude").display().to_string();
        // Makes Claude Code create its own file first.
        home.run(&claude, &["mcp", "add", "--scope", "user", "other", "--", "/bin/false"]).await.ok();

        // Connecting and disconnecting at once restores every file and leaves no new one.
        let before = files(home.path());
        let connect = ["connect", "--yes", "--node", "bench", "codex", "claude-code"];
        let connected = plexus(&home, &connect).await;
        for words in [
            "Codex 0.",
            "Claude Code 2.",
            "Codex is connected.",
            "Claude Code is connected.",
            "may use bench;",
        ] {
            assert!(connected.ok().contains(words), "{words}: {connected:?}");
        }
        assert!(!changed(&before, &files(home.path())).is_empty());
        plexus(&home, &["disconnect", "--yes"]).await.ok();
        assert_eq!(changed(&before, &files(home.path())), Vec::<&PathBuf>::new());

        // Connected again, the agents list the hub themselves.
        plexus(&home, &connect).await.ok();
        let listed = home.run("codex", &["mcp", "list", "--json"]).await;
        let listed: Value = serde_json::from_str(listed.ok()).expect("JSON");
        let entry = listed.as_array().expect("a list").iter().find(|server| server["name"] == "plexus");
        let entry = entry.unwrap_or_else(|| panic!("{listed}"));
        assert_eq!(
            (&entry["enabled"], &entry["transport"]["type"]),
            (&json!(true), &json!("stdio")),
            "{entry}"
        );
        let program = entry["transport"]["command"].as_str().expect("a command");
        assert!(Path::new(program).is_absolute(), "{entry}");
        let listed = home.run(&claude, &["mcp", "list"]).await;
        let line = listed.ok().lines().find(|line| line.starts_with("plexus:")).expect("a line");
        assert!(line.contains("Connected"), "{listed:?}");
        // The hub has another home and no CODEX_HOME, and still maintains their files.
        hub_home.run(&["sync", "now"]).await.ok();
        let doctor = plexus(&home, &["doctor"]).await;
        assert!(!doctor.ok().contains("warning  agents"), "{doctor:?}");
        for agent in ["Codex: ", "Claude Code: "] {
            let line = doctor.stdout.lines().find(|line| line.contains(agent)).expect("a line of the agent");
            assert!(line.starts_with("ok") && line.contains(" tools in "), "{doctor:?}");
        }

        // The agents work. Which tools need no approval is decided by the user who starts them.
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        let run_output =
            home.run("codex", &["exec", "-c", approve, "--json", "--skip-git-repo-check", PROMPT]).await;
        assert!(
            json_lines(run_output.ok()).iter().any(|line| line["type"] == "turn.completed"),
            "{run_output:?}"
        );
        let run_output = home
            .run(&claude, &["-p", "--output-format", "json", "--allowedTools", "mcp__plexus", "--", PROMPT])
            .await;
        run_output.ok();
        for (model, agent) in [(&models.0, "agent:codex"), (&models.1, "agent:claude-code")] {
            model.assert_played();
            let prompt_text = format!("{:?}", model.request_for(0).parsed);
            assert!(prompt_text.contains(USER), "{agent} does not know the workspace: {prompt_text}");
            let last = model.request_for(2);
            let output = last.results().last().expect("a result").text.clone();
            assert!(output.contains(COMMAND_OUTPUT), "{agent}: {output}");
            let calls = hub.list("/api/v1/audit", |_| false).await;
            let made = calls.iter().filter(|call| call["actor"] == agent && call["via"] == "mcp");
            let tools: Vec<&Value> = made.map(|call| &call["tool"]).collect();
            assert_eq!(tools, ["terminal", "todo"], "{agent}: {calls:#?}");
        }

        // Disconnecting keeps what the agents have written and removes everything of Plexus.
        let claude_file = home.path().join(".claude.json");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let mut expected: Value = serde_json::from_str(&read(&claude_file)).expect("JSON");
        expected["mcpServers"].as_object_mut().expect("servers").remove("plexus");
        plexus(&home, &["disconnect", "--yes"]).await.ok();
        let left: Value = serde_json::from_str(&read(&claude_file)).expect("JSON");
        assert_eq!(left, expected);
        for file in [".codex/config.toml", ".codex/AGENTS.md"] {
            let path = home.path().join(file);
            assert_eq!(Some(&std::fs::read(&path).unwrap_or_default()), before.get(&path), "{file}");
        }
        assert!(!home.path().join(".claude/CLAUDE.md").exists());
        let tokens = hub.list("/api/v1/tokens", |_| false).await;
        let of_agents: Vec<&Value> = tokens.iter().filter(|token| token["kind"] == "agent").collect();
        assert!(!of_agents.is_empty(), "{tokens:#?}");
        assert!(of_agents.iter().all(|token| token["revoked_at"].is_string()), "{of_agents:#?}");
    });
}

/// Connects the agent of this home and disconnects it; returns the output of its command `list` in between.
async fn connect_and_list_servers(
    home: &AgentHome,
    hub: &HubProcess,
    agent: &str,
    list: (&str, &[&str]),
) -> String {
    let data = hub.data_dir().display().to_string();
    let before = files(home.path());
    let connected =
        home.run(env!("CARGO_BIN_EXE_plexus"), &["--data-dir", &data, "connect", "--yes", agent]).await;
    assert!(connected.ok().contains("is connected."), "{connected:?}");
    let changed_files: Vec<PathBuf> = changed(&before, &files(home.path())).into_iter().cloned().collect();
    let output = home.run(list.0, list.1).await;
    home.run(env!("CARGO_BIN_EXE_plexus"), &["--data-dir", &data, "disconnect", "--yes"]).await.ok();
    for file in changed_files {
        let left = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(!left.contains("--agent"), "{}: {left}", file.display());
    }
    format!("{}{}", output.stdout, output.stderr)
}

#[test]
fn opencode_lists_the_connection() {
    AgentHome::on_loopback("opencode", async |agent_home| {
        let Some((home, opencode)) = with_opencode(agent_home) else { return };
        let hub = crate::plexus();
        let hub = hub.up().await;
        let output = connect_and_list_servers(&home, &hub, "opencode", (&opencode, &["mcp", "list"])).await;
        let line = output.lines().find(|line| line.contains("plexus")).unwrap_or_else(|| panic!("{output}"));
        assert!(line.contains("connected"), "{output}");
    });
}

#[test]
fn gemini_lists_the_connection() {
    AgentHome::on_loopback("gemini", async |agent_home| {
        let hub = crate::plexus();
        let hub = hub.up().await;
        let home = agent_home.with("GEMINI_CLI_TRUST_WORKSPACE", "true");
        let output = connect_and_list_servers(&home, &hub, "gemini", ("gemini", &["mcp", "list"])).await;
        let line = output.lines().find(|line| line.contains("plexus:")).unwrap_or_else(|| panic!("{output}"));
        assert!(line.contains("Connected"), "{output}");
    });
}
