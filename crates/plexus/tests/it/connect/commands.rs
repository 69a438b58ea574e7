//! Output and file changes of the commands.

use serde_json::{Value, json};

use super::{home, read, write};

const CODEX: &str = "# My settings.\nmodel = \"o9\"\r\n\n[mcp_servers.other]\ncommand = \"other\"\n";

#[tokio::test]
async fn dry_run_shows_every_line_and_changes_nothing() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", CODEX);
    let output = plexus.run(&["connect", "codex", "claude", "--dry-run"]).await;
    for line in [
        "Codex 0.166.0",
        "Claude Code 2.1.325",
        "  + [mcp_servers.plexus]",
        "  + args = [\"mcp\", \"--agent\", \"codex\"]",
    ] {
        assert!(output.ok().lines().any(|printed| printed == line), "{line:?}: {output:?}");
    }
    assert!(output.stdout.contains(".claude.json (new)"), "{output:?}");
    assert!(output.stderr.contains("dry run"), "{output:?}");
    assert_eq!(read(&config), CODEX);
    assert!(!plexus.home().join(".claude.json").exists());
    let json = plexus.run(&["connect", "codex", "--dry-run", "--json"]).await.json(0);
    let entry = &json["agents"][0]["entry"];
    assert_eq!(entry["args"], json!(["mcp", "--agent", "codex"]), "{json}");
    assert_eq!(json["connected"], json!([]), "{json}");
    let tokens = plexus.run(&["token", "list", "--json"]).await.json(0);
    assert!(!tokens.to_string().contains("\"codex\""), "{tokens}");
}

#[tokio::test]
async fn dry_run_without_terminal_covers_all_agents_found() {
    let plexus = home();
    let _hub = plexus.up().await;
    let output = plexus.run(&["connect", "--dry-run"]).await;
    assert!(
        output.ok().contains("Codex 0.166.0") && output.stdout.contains("Claude Code 2.1.325"),
        "{output:?}"
    );
    assert!(output.stderr.contains("Nothing was changed: this was a dry run."), "{output:?}");
    let json = plexus.run(&["connect", "--dry-run", "--json"]).await.json(0);
    let agents: Vec<&Value> =
        json["agents"].as_array().expect("a list").iter().map(|one| &one["agent"]).collect();
    assert_eq!(agents, [&json!("codex"), &json!("claude-code")], "{json}");
    assert!(!plexus.home().join(".codex").exists() && !plexus.home().join(".claude.json").exists());
}

#[tokio::test]
async fn connection_is_listed_restored_and_removed_byte_by_byte() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", CODEX);
    let output = plexus.run_with(&["connect", "--yes"], &[("PLEXUS_AGENTS", "codex, claude-code")]).await;
    assert!(output.ok().contains("Codex is connected."), "{output:?}");
    assert!(output.stdout.contains("Claude Code is connected."), "{output:?}");
    let connected = read(&config);
    assert!(connected.starts_with(CODEX) && connected.contains("[mcp_servers.plexus]"), "{connected}");
    let claude: Value = serde_json::from_str(&read(&plexus.home().join(".claude.json"))).expect("JSON");
    assert_eq!(claude["mcpServers"]["plexus"]["args"], json!(["mcp", "--agent", "claude-code"]), "{claude}");
    // The agents' files contain no token.
    assert!(!connected.contains("eyJ") && !claude.to_string().contains("eyJ"));

    let status = plexus.run(&["connect", "--status", "--json"]).await.json(0);
    let states: Vec<(&Value, &Value)> = status["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|agent| (&agent["id"], &agent["state"]))
        .collect();
    let expected =
        [(json!("local:codex"), json!("connected")), (json!("local:claude-code"), json!("connected"))];
    assert_eq!(states, expected.iter().map(|(id, state)| (id, state)).collect::<Vec<_>>(), "{status}");
    // The hub lists the same.
    let listed = plexus.run(&["sync", "list", "--json"]).await.json(0);
    assert_eq!(listed["items"], status["items"]);

    // Connecting again changes nothing.
    let again = plexus.run(&["connect", "--yes", "codex"]).await;
    assert!(again.ok().contains("already connected"), "{again:?}");
    assert_eq!(read(&config), connected);

    let copies = plexus.run(&["connect", "--restore", "--json"]).await.json(0);
    let copy = copies["items"][0]["id"].as_str().expect("a copy");
    plexus.run(&["connect", "--restore", copy, "--yes"]).await.ok();
    assert_eq!(read(&config), CODEX);
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    assert_eq!(read(&config), connected);

    let output = plexus.run(&["disconnect", "--yes"]).await;
    assert!(output.ok().contains("codex is disconnected."), "{output:?}");
    assert_eq!(read(&config), CODEX);
    assert!(!plexus.home().join(".claude.json").exists());
    let output = plexus.run(&["disconnect", "--yes"]).await;
    assert!(output.ok().is_empty() && output.stderr.contains("No agent is connected"), "{output:?}");
}

#[tokio::test]
async fn entry_of_the_same_name_is_a_conflict_unless_replaced() {
    let plexus = home();
    let _hub = plexus.up().await;
    let own = "[mcp_servers.plexus]\nurl = \"http://127.0.0.1:9/mcp\"\n";
    let config = write(&plexus, ".codex/config.toml", own);
    let output = plexus.run(&["connect", "--yes", "codex"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.contains("! conflict: ") && output.stdout.contains("--policy replace"),
        "{output:?}"
    );
    assert_eq!(read(&config), own);
    let tokens = plexus.run(&["token", "list", "--json"]).await.json(0);
    assert!(!tokens.to_string().contains("\"codex\""), "{tokens}");
    plexus.run(&["connect", "--yes", "codex", "--policy", "replace"]).await.ok();
    assert!(read(&config).contains("--agent"), "{}", read(&config));
    plexus.run(&["disconnect", "--yes", "codex"]).await.ok();
    assert_eq!(read(&config), own);
}

#[tokio::test]
async fn entry_changed_by_the_user_is_kept_unless_replaced() {
    let plexus = home();
    let _hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let config = plexus.home().join(".codex/config.toml");
    let changed = read(&config).replace("\"codex\"", "\"mine\"");
    std::fs::write(&config, &changed).expect("a file");
    let output = plexus.run(&["connect", "--yes", "codex"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    let output = plexus.run(&["disconnect", "--yes"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("changed since it was written"), "{output:?}");
    assert_eq!(read(&config), changed);
    plexus.run(&["disconnect", "--yes", "--policy", "replace"]).await.ok();
    assert!(!config.exists(), "{}", read(&config));
}

#[tokio::test]
async fn project_is_connected_separately_with_a_shareable_entry() {
    let plexus = home();
    let _hub = plexus.up().await;
    let project = plexus.home().join("shop");
    std::fs::create_dir(&project).expect("a folder");
    plexus.run(&["connect", "--yes", "claude-code", "--project", "shop"]).await.ok();
    let servers: Value = serde_json::from_str(&read(&project.join(".mcp.json"))).expect("JSON");
    let entry = json!({ "type": "stdio", "command": "plexus", "args": ["mcp", "--agent", "claude-code"] });
    assert_eq!(servers["mcpServers"]["plexus"], entry);
    assert!(!plexus.home().join(".claude.json").exists());
    plexus.run(&["disconnect", "--yes", "--project", "shop"]).await.ok();
    assert!(!project.join(".mcp.json").exists());
    let output = plexus.run(&["connect", "--yes", "windsurf", "--project", "shop"]).await;
    assert!(output.failed(2).contains("Windsurf has no MCP servers per project"), "{output:?}");
}

#[tokio::test]
async fn failures_are_explained_with_a_fix() {
    let plexus = home();
    // No terminal and no agent named.
    let output = plexus.run(&["connect"]).await;
    let printed = output.failed(2);
    assert!(
        printed.contains("no terminal to ask on") && printed.contains("plexus connect codex claude-code"),
        "{printed}"
    );
    let output = plexus.run(&["connect", "codx"]).await;
    assert!(output.failed(2).contains("did you mean codex?"), "{output:?}");
    // No hub.
    let output = plexus.run(&["connect", "--yes", "codex"]).await;
    assert!(output.failed(4).contains("plexus up"), "{output:?}");
    assert!(!plexus.home().join(".codex").exists());
    let output = plexus.run(&["connect", "--restore", "nothing"]).await;
    assert!(output.failed(1).contains("there is no backup"), "{output:?}");
    let output = plexus.run(&["disconnect", "codex"]).await;
    assert!(output.failed(1).contains("Codex is not connected"), "{output:?}");
    let output = plexus.run(&["connect", "codex", "--project", "nowhere"]).await;
    assert!(output.failed(2).contains("is not a folder"), "{output:?}");
    let output = plexus.run(&["sync", "--once"]).await;
    assert!(output.failed(1).contains("no agent on this machine is connected"), "{output:?}");
}

#[tokio::test]
async fn invalid_file_is_refused_and_other_agents_are_connected() {
    let plexus = home();
    let _hub = plexus.up().await;
    let broken = "{ \"mcpServers\": { \"other\": }\n";
    let file = write(&plexus, ".claude.json", broken);
    let output = plexus.run(&["connect", "--yes", "codex", "claude-code"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.contains("! refused: ") && output.stdout.contains("is not valid JSON"),
        "{output:?}"
    );
    assert!(output.stdout.contains("Codex is connected."), "{output:?}");
    assert_eq!(read(&file), broken);
}

#[tokio::test]
async fn hub_without_a_terminal_gives_no_advice_on_agents() {
    let plexus = home();
    let hub = plexus.up().await;
    assert!(!hub.welcome().contains("not connected"), "{}", hub.welcome());
}

#[tokio::test]
async fn other_content_of_a_file_is_not_shown() {
    let plexus = home();
    let _hub = plexus.up().await;
    let servers = "{\"a\": {\"command\": \"x\", \"args\": [\"--api-key\", \"K3YVALUE0001\"],\n\"env\": {\"K\":\n\"K3YVALUE0002\"}}}";
    for text in [
        format!("{{\"mcpServers\": {servers}}}"),
        format!("{{\n  \"mcpServers\": {servers},\n  \"k\": \"K3YVALUE0003\"\n}}\n"),
        format!("{{\"k\": \"K3YVALUE0004\", \"mcpServers\": {}}}", servers.replace('\n', " ")),
    ] {
        write(&plexus, ".claude.json", &text);
        for more in [&["--json"][..], &[]] {
            let output = plexus.run(&[&["connect", "claude-code", "--dry-run"], more].concat()).await;
            assert!(!output.ok().contains("K3YVALUE"), "{output:?}");
            assert!(output.stdout.contains("--agent"), "{output:?}");
        }
    }
}

#[tokio::test]
async fn concurrent_commands_are_serialized() {
    let plexus = home();
    let hub = plexus.up().await;
    let codex = write(&plexus, ".codex/config.toml", CODEX);
    let args = ["connect", "--yes", "codex", "claude-code"];
    let (one, two, three) = tokio::join!(plexus.run(&args), plexus.run(&args), plexus.run(&args));
    for output in [one, two, three] {
        output.ok();
    }
    let active = |tokens: &[Value]| {
        tokens.iter().filter(|token| token["kind"] == "agent" && token["revoked_at"].is_null()).count()
    };
    assert_eq!(active(&hub.list("/api/v1/tokens", |_| false).await), 2);
    let args = ["disconnect", "--yes"];
    let (one, two) = tokio::join!(plexus.run(&args), plexus.run(&args));
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{one:?} {two:?}");
    assert_eq!(read(&codex), CODEX);
    assert_eq!(active(&hub.list("/api/v1/tokens", |_| false).await), 0);
}

#[tokio::test]
async fn agent_with_moved_settings_is_not_reported_as_connected() {
    let plexus = home();
    let _hub = plexus.up().await;
    let other_folder = plexus.home().join("elsewhere").display().to_string();
    plexus.run_with(&["connect", "--yes", "codex"], &[("CODEX_HOME", &other_folder)]).await.ok();
    let output = plexus.run(&["connect", "--yes", "codex"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.contains("its settings are now in") && output.stdout.contains("disconnect it first"),
        "{output:?}"
    );
    // Disconnecting needs no variable.
    plexus.run(&["disconnect", "--yes"]).await.ok();
    assert!(!plexus.home().join("elsewhere").exists());
}

#[tokio::test]
async fn agents_are_run_once_for_their_version_and_in_another_home() {
    let plexus = home();
    let _hub = plexus.up().await;
    let count = plexus.home().join("count");
    let script = format!("echo x >\"$HOME/of-codex\"; echo x >>{}; echo codex-cli 0.166.0", count.display());
    super::program(&plexus, "codex", &script);
    let lists = [&["connect", "--dry-run"][..], &["connect", "--status"], &["sync", "list"]];
    for args in lists {
        let output = plexus.run(args).await;
        assert!(output.stdout.contains("0.166.0"), "{args:?}: {output:?}");
    }
    assert_eq!(read(&count), "x\n");
    assert_eq!(entries(plexus.home()), [".local", "bin", "count", "hub.log"], "an agent ran in this home");

    // With a connected agent, `doctor` lists the agents too.
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    for args in lists.iter().chain([&["doctor"][..]].iter()) {
        let output = plexus.run(args).await;
        assert!(
            output.stdout.contains("0.166.0") || output.stdout.contains("Codex: "),
            "{args:?}: {output:?}"
        );
    }
    assert_eq!(read(&count), "x\n");
    assert_eq!(entries(plexus.home()), [".codex", ".local", "bin", "count", "hub.log"]);
}

/// The names in a folder.
fn entries(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
