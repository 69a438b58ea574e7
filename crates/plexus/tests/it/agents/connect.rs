//! The real Codex and Claude Code, connected by `plexus connect`: both say so themselves, call a tool of the hub and one of
//! another machine, know what the workspace says, and are left as they were.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plexus_testkit::model::{Script, ScriptedModel, Tool, Turn};
use plexus_testkit::{AgentHome, HubProcess, Pinned, Plexus, Ran};
use serde_json::{Value, json};

use super::{PROMPT, add, lines, todo};
use crate::machines::{join, run_node};
use crate::node_machines::state;

/// What the workspace of the hub says.
const USER: &str = "The person you work for collects teapots.";
/// What a command on the other machine prints.
const WORDS: &str = "from the machine called bench";

fn command() -> Turn {
    let arguments = json!({ "action": "run", "command": "cat \"$HOME/words\"" });
    Turn::call(Tool::ending("terminal"), arguments)
}

fn script() -> Script {
    Script::new().turn(todo(add("milk"))).turn(command()).turn(Turn::text("Done."))
}

/// A home in which both agents are installed, and know the model and nothing of a hub.
fn home(given: AgentHome, claude: &Pinned, models: [&ScriptedModel; 2], hub: &HubProcess) -> AgentHome {
    let path = format!("{}:{}:/usr/bin:/bin", given.installed("bin").display(), claude.path("bin").display());
    given.write(
        ".codex/config.toml",
        &format!(
            "# Mine.\nmodel = \"scripted\"\nmodel_provider = \"scripted\"\ncheck_for_update_on_startup = false\n\n\
             [analytics]\nenabled = false\n\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\n\
             wire_api = \"responses\"\nrequires_openai_auth = false\n",
            models[0].openai_url()
        ),
    );
    given.write(".codex/AGENTS.md", "# My rules\n\nSpeak plainly.\n");
    let codex = given.path().join(".codex").display().to_string();
    given
        .with("PATH", path)
        .with("CODEX_HOME", codex)
        .with("PLEXUS_DATA_DIR", hub.data_dir().display().to_string())
        .with("ANTHROPIC_BASE_URL", models[1].url())
        .with("ANTHROPIC_API_KEY", "none")
        .with("ENABLE_TOOL_SEARCH", "false")
        .with("DISABLE_TELEMETRY", "1")
        .with("DISABLE_ERROR_REPORTING", "1")
        .with("DISABLE_AUTOUPDATER", "1")
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
}

async fn plexus(home: &AgentHome, args: &[&str]) -> Ran {
    home.run(env!("CARGO_BIN_EXE_plexus"), args).await
}

/// All files below a folder, with what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Codex makes links to itself there whenever it is started.
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

/// Files that came, went or have another content; by name, since some are long.
fn changed<'f>(
    before: &'f BTreeMap<PathBuf, Vec<u8>>,
    after: &'f BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<&'f PathBuf> {
    let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    all.filter(|path| before.get(*path) != after.get(*path)).collect()
}

async fn machine(plexus: &Plexus, hub: &HubProcess) -> (Plexus, tokio::process::Child) {
    let bench = crate::plexus();
    std::fs::write(bench.home().join("words"), WORDS).expect("a file");
    join(plexus, &bench, &hub.url(""), "bench", &[]).await;
    let node = run_node(&bench, "ws");
    state(plexus, "bench", "online").await;
    (bench, node)
}

#[test]
fn real_agents_are_connected_use_the_hub_and_a_machine_and_are_left_as_they_were() {
    AgentHome::on_loopback("codex", async |given| {
        let hub_home = crate::plexus();
        let hub = hub_home.up().await;
        let models = (ScriptedModel::start(script()).await, ScriptedModel::start(script()).await);
        let _bench = machine(&hub_home, &hub).await;
        let workspace = hub.data_dir().join("workspace");
        std::fs::create_dir(&workspace).expect("a folder");
        std::fs::write(workspace.join("USER.md"), USER).expect("a file");
        let claude_code = Pinned::npm("claude-code").await.expect("Claude Code is installed");
        let home = home(given, &claude_code, [&models.0, &models.1], &hub);
        let claude = claude_code.path("bin/claude").display().to_string();
        // Claude Code makes its own file first, with whatever it keeps in it.
        home.run(&claude, &["mcp", "add", "--scope", "user", "other", "--", "/bin/false"]).await.ok();

        // In and out at once: every file as it was, and none that was not there.
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

        // In again: what the agents say of it themselves.
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
        // The hub has another home and knows no CODEX_HOME, and looks after their files all the same.
        hub_home.run(&["sync", "now"]).await.ok();
        let doctor = plexus(&home, &["doctor"]).await;
        assert!(!doctor.ok().contains("warning  agents"), "{doctor:?}");
        for agent in ["Codex: ", "Claude Code: "] {
            let line = doctor.stdout.lines().find(|line| line.contains(agent)).expect("a line of the agent");
            assert!(line.starts_with("ok") && line.contains(" tools in "), "{doctor:?}");
        }

        // At work. What they may do without asking is up to who starts them.
        let approve = "mcp_servers.plexus.default_tools_approval_mode=\"approve\"";
        let ran =
            home.run("codex", &["exec", "-c", approve, "--json", "--skip-git-repo-check", PROMPT]).await;
        assert!(lines(ran.ok()).iter().any(|line| line["type"] == "turn.completed"), "{ran:?}");
        let ran = home
            .run(&claude, &["-p", "--output-format", "json", "--allowedTools", "mcp__plexus", "--", PROMPT])
            .await;
        ran.ok();
        for (model, agent) in [(&models.0, "agent:codex"), (&models.1, "agent:claude-code")] {
            model.assert_played();
            let asked = format!("{:?}", model.request_for(0).asked);
            assert!(asked.contains(USER), "{agent} does not know the workspace: {asked}");
            let last = model.request_for(2);
            let said = last.results().last().expect("a result").text.clone();
            assert!(said.contains(WORDS), "{agent}: {said}");
            let calls = hub.list("/api/v1/audit", |_| false).await;
            let made = calls.iter().filter(|call| call["actor"] == agent && call["via"] == "mcp");
            let tools: Vec<&Value> = made.map(|call| &call["tool"]).collect();
            assert_eq!(tools, ["terminal", "todo"], "{agent}: {calls:#?}");
        }

        // Out again, after the agents have written what they write: that stays, and nothing of ours does.
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

/// Connects the agent of this home, and takes it out again: what it says of its servers in between.
async fn says(home: &AgentHome, hub: &HubProcess, agent: &str, list: (&str, &[&str])) -> String {
    let data = hub.data_dir().display().to_string();
    let before = files(home.path());
    let connected =
        home.run(env!("CARGO_BIN_EXE_plexus"), &["--data-dir", &data, "connect", "--yes", agent]).await;
    assert!(connected.ok().contains("is connected."), "{connected:?}");
    let changed_files: Vec<PathBuf> = changed(&before, &files(home.path())).into_iter().cloned().collect();
    let said = home.run(list.0, list.1).await;
    home.run(env!("CARGO_BIN_EXE_plexus"), &["--data-dir", &data, "disconnect", "--yes"]).await.ok();
    for file in changed_files {
        let left = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(!left.contains("--agent"), "{}: {left}", file.display());
    }
    format!("{}{}", said.stdout, said.stderr)
}

#[test]
fn opencode_says_that_it_is_connected() {
    AgentHome::on_loopback("opencode", async |given| {
        let programs = given.installed("node_modules/opencode-linux-x64/bin");
        if !programs.join("opencode").exists() {
            eprintln!("opencode is installed for x86-64 Linux only");
            return;
        }
        let hub = crate::plexus();
        let hub = hub.up().await;
        let home = given
            .with("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .with("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .with("OPENCODE_DISABLE_AUTOUPDATE", "1");
        let opencode = programs.join("opencode").display().to_string();
        let said = says(&home, &hub, "opencode", (&opencode, &["mcp", "list"])).await;
        let line = said.lines().find(|line| line.contains("plexus")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("connected"), "{said}");
    });
}

#[test]
fn gemini_says_that_it_is_connected() {
    AgentHome::on_loopback("gemini", async |given| {
        let hub = crate::plexus();
        let hub = hub.up().await;
        let home = given.with("GEMINI_CLI_TRUST_WORKSPACE", "true");
        let said = says(&home, &hub, "gemini", ("gemini", &["mcp", "list"])).await;
        let line = said.lines().find(|line| line.contains("plexus:")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("Connected"), "{said}");
    });
}
