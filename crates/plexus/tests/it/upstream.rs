//! `plexus upstream`: adding, changing, calling, importing and removing servers.

mod approve;
mod diagnostics;

use std::path::Path;

use plexus_testkit::fixture::{Eras, FixtureProcess, program};
use plexus_testkit::{HubProcess, Plexus, until};
use serde_json::json;

use crate::pty::Terminal;

/// A home whose hub may run the fixture server.
fn plexus() -> Plexus {
    crate::plexus().with("PLEXUS_UPSTREAMS_COMMANDS", format!("{},false", program().display()))
}

async fn running() -> (Plexus, HubProcess) {
    let plexus = plexus();
    let hub = plexus.up().await;
    (plexus, hub)
}

fn fixture_program() -> String {
    program().display().to_string()
}

#[tokio::test]
async fn server_is_added_called_disabled_enabled_and_removed() {
    let (plexus, hub) = running().await;
    let empty = plexus.run(&["upstream", "list"]).await;
    assert_eq!(empty.ok(), "");
    assert!(empty.stderr.contains("plexus upstream add NAME"), "{empty:?}");
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains("servers\tnone; `plexus upstream add`"), "{status:?}");

    let added = plexus.run(&["upstream", "add", "local", "--", &fixture_program(), "--stdio"]).await;
    assert!(added.ok().starts_with("local is up and has "), "{added:?}");
    assert!(added.ok().lines().any(|line| line == "  mcp__local__echo"), "{added:?}");
    assert!(added.stderr.contains("mcp_servers.d/local.json"), "{added:?}");

    let list = plexus.run(&["upstream", "list"]).await;
    let row: Vec<&str> = list.ok().trim_end().split('\t').collect();
    assert_eq!((row.len(), &row[..3]), (6, &["local", "ready", "stdio"][..]), "{list:?}");
    let items = plexus.run(&["upstream", "list", "--json"]).await.json(0);
    assert_eq!(items["items"][0]["name"], "local", "{items}");
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains("servers\t1 ready of 1\n"), "{status:?}");
    let tools = plexus.run(&["tools", "list", "--limit", "500"]).await;
    assert!(tools.ok().contains("mcp__local__echo\tserver local\t"), "{tools:?}");
    let shown = plexus.run(&["upstream", "show", "local"]).await;
    for part in ["state\tready\n", "\"--stdio\"", "  mcp__local__echo\n"] {
        assert!(shown.ok().contains(part), "{part}: {shown:?}");
    }

    let called = plexus.run(&["tools", "call", "mcp__local__echo", "--arg", "text=hello"]).await;
    assert_eq!(called.ok(), "hello\n");
    let agent = hub.token("codex").await.token;
    let result = hub.mcp(&agent).tool("mcp__local__echo", json!({ "text": "over MCP" })).await;
    assert_eq!(result["content"][0]["text"], "over MCP", "{result}");

    let off = plexus.run(&["upstream", "disable", "local"]).await;
    assert!(off.ok().contains("plexus upstream enable local"), "{off:?}");
    assert!(!plexus.run(&["tools", "list", "--limit", "500"]).await.ok().contains("mcp__local__"));
    let refused_after = plexus.run(&["tools", "call", "mcp__local__echo", "--arg", "text=hello"]).await;
    assert!(refused_after.failed(1).contains("Unknown tool"), "{refused_after:?}");
    assert!(plexus.run(&["upstream", "enable", "local"]).await.ok().starts_with("local is up"));
    assert!(plexus.run(&["upstream", "restart", "local"]).await.ok().starts_with("local is up"));

    let removed = plexus.run(&["upstream", "remove", "local"]).await;
    let backup = removed.ok().trim_end().trim_end_matches('.').rsplit(' ').next().expect("a path");
    assert!(Path::new(backup).is_file(), "{removed:?}");
    let unknown = plexus.run(&["upstream", "show", "local"]).await;
    assert!(unknown.failed(1).contains("`plexus upstream list` shows them"), "{unknown:?}");
    let calls = plexus.run(&["audit", "list"]).await;
    for operation in ["upstream_add", "upstream_disable", "upstream_enable", "upstream_remove"] {
        assert!(calls.ok().contains(operation), "{operation}: {calls:?}");
    }
}

#[tokio::test]
async fn server_with_a_url_is_added_and_listed_at_the_next_start() {
    let (plexus, hub) = running().await;
    let server = FixtureProcess::start(Eras::Both).await;
    let header = "X-Test: ${env:HOME}";
    let added =
        plexus.run(&["upstream", "add", "web", server.url(), "--header", header, "--json"]).await.json(0);
    assert_eq!((&added["state"], &added["transport"]), (&json!("ready"), &json!("streamable_http")));
    assert_eq!(added["document"]["headers"]["X-Test"], "${env:HOME}", "{added}");
    let login = plexus.run(&["upstream", "login", "web", "--no-browser"]).await;
    assert_eq!(login.ok(), "web is up and needs no login.\n");
    assert!(hub.terminate().await.success());
    let hub = plexus.up().await;
    assert!(hub.welcome().contains("  Servers       1: web\n"), "{}", hub.welcome());
    hub.api_until("/api/v1/status", |status| status["upstreams"]["ready"] == 1).await;
    let called = plexus.run(&["tools", "call", "mcp__web__echo", "--arg", "text=hello"]).await;
    assert_eq!(called.ok(), "hello\n");
}

#[tokio::test]
async fn failed_server_is_reported_with_its_output() {
    let (plexus, _hub) = running().await;
    let command = [&fixture_program() as &str, "--no-such-flag"];
    let added = plexus.run(&[&["upstream", "add", "broken", "--"][..], &command[..]].concat()).await;
    let stderr = added.failed(1);
    for part in [
        "error: broken did not come up: ",
        "  | error: unexpected argument '--no-such-flag' found",
        "Its file is kept: ",
        "plexus upstream remove broken",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let listed = plexus.run(&["upstream", "list"]).await;
    assert!(
        listed.stderr.contains("Not working: broken. `plexus upstream show broken` shows why."),
        "{listed:?}"
    );
    let shown = plexus.run(&["upstream", "show", "broken"]).await;
    assert!(shown.ok().contains("--no-such-flag"), "{shown:?}");
    for part in ["  | error: unexpected argument", "plexus upstream restart broken"] {
        assert!(shown.stderr.contains(part), "{part}: {shown:?}");
    }
    let logs = plexus.run(&["upstream", "logs", "broken"]).await;
    assert!(logs.ok().contains("--no-such-flag"), "{logs:?}");
    let tested = plexus.run(&["upstream", "test", "broken"]).await;
    assert!(tested.failed(1).contains("broken does not work: "), "{tested:?}");
    plexus.run(&["upstream", "remove", "broken"]).await.ok();
}

#[tokio::test]
async fn server_that_prints_no_mcp_messages_is_reported() {
    let plexus = plexus();
    let folder = plexus.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = json!({ "command": "/bin/sh", "args": ["-c", "echo 'Enter your name:'; exec sleep 1000"] });
    std::fs::write(folder.join("talker.json"), script.to_string()).expect("a file");
    let _hub = plexus.up().await;
    let remark = "its output is not an MCP message; the last line: Enter your name:";
    until("the list has the remark", async || plexus.run(&["upstream", "list"]).await.ok().contains(remark))
        .await;
    let shown = plexus.run(&["upstream", "show", "talker"]).await;
    assert!(shown.ok().contains("state\tstarting\n"), "{shown:?}");
    assert!(shown.stderr.contains(&format!("It is not up yet: {remark}")), "{shown:?}");
    let late = plexus.run(&["upstream", "restart", "talker", "--wait", "4s"]).await;
    assert!(late.failed(1).contains(&format!("talker is not up after 4 s: {remark}")), "{late:?}");
}

#[tokio::test]
async fn server_can_be_tested_before_it_is_added() {
    let (plexus, _hub) = running().await;
    let tested = plexus.run(&["upstream", "test", "trial", "--", &fixture_program(), "--stdio"]).await;
    assert!(tested.ok().lines().any(|line| line == "  mcp__trial__echo"), "{tested:?}");
    assert_eq!(plexus.run(&["upstream", "list", "--json"]).await.json(0)["items"], json!([]));
    let refused = plexus.run(&["upstream", "test", "trial", "--", "sh", "-c", "true"]).await;
    let stderr = refused.failed(5);
    assert!(stderr.contains("`sh` is not in the setting `upstreams.commands`"), "{stderr}");
    assert!(stderr.contains("hint: --allow-command lets the hub run it from now on."), "{stderr}");
    for (args, words) in [
        (&["upstream", "add", "x"][..], "give the URL of the server"),
        (&["upstream", "add", "x", "http://127.0.0.1:9", "--", "sh"], "not both"),
        (&["upstream", "add", "x", "http://127.0.0.1:9", "--env", "A=b"], "--env and --cwd"),
        (&["upstream", "add", "x", "--header", "A: b", "--", "sh"], "--header"),
    ] {
        let output = plexus.run(args).await;
        assert!(output.failed(2).contains(words), "{args:?}: {output:?}");
    }
}

#[tokio::test]
async fn disabled_lazy_and_credential_holding_servers_are_reported() {
    let (plexus, _hub) = running().await;
    // Has the form of a credential, but is invalid.
    let header = format!("Authorization: Bearer {}", ["ghp", &"0".repeat(36)].join("_"));
    let url = "http://127.0.0.1:9/mcp";
    let off = plexus.run(&["upstream", "add", "off", url, "--disabled", "--header", &header]).await;
    assert_eq!(off.ok(), "off is disabled. `plexus upstream enable off` enables it.\n");
    assert!(off.stderr.contains("warning: ") && off.stderr.contains("${env:"), "{off:?}");
    assert!(!off.stderr.contains(&"0".repeat(36)), "{off:?}");
    let lazy = plexus.run(&["upstream", "add", "lazy", "--lazy", "--", &fixture_program(), "--stdio"]).await;
    // `add` starts it once to list its tools; it is stopped after minutes without calls.
    assert!(lazy.ok().starts_with("lazy is up and has "), "{lazy:?}");
    assert!(lazy.ok().contains("mcp__lazy__echo"), "{lazy:?}");
    let shown = plexus.run(&["upstream", "show", "lazy", "--json"]).await.json(0);
    assert_eq!(shown["document"]["lazy"], true, "{shown}");
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains("1 disabled"), "{status:?}");
}

#[tokio::test]
async fn servers_of_another_program_can_be_imported() {
    let (plexus, _hub) = running().await;
    let file = plexus.home().join(".mcp.json");
    let servers = json!({ "mcpServers": {
        "local": { "command": fixture_program(), "args": ["--stdio"] },
        "shell": { "command": "sh", "args": ["-c", "true"] },
    } });
    std::fs::write(&file, servers.to_string()).expect("a file");
    let path = file.to_str().expect("UTF-8");
    let plan = plexus.run(&["upstream", "import", path, "--dry-run"]).await;
    assert_eq!(plan.code, Some(1), "{plan:?}");
    assert!(plan.stdout.contains("local\twould be added\t"), "{plan:?}");
    assert!(
        plan.stdout.contains("shell\tskipped\t") && plan.stdout.contains("upstreams.commands"),
        "{plan:?}"
    );
    assert!(plan.stderr.contains("Nothing was changed"), "{plan:?}");
    let done = plexus.run(&["upstream", "import", path, "--json"]).await;
    let done = done.json(1);
    assert_eq!((&done["added"][0]["name"], &done["dry_run"]), (&json!("local"), &json!(false)), "{done}");
    assert!(plexus.run(&["upstream", "restart", "local"]).await.ok().starts_with("local is up"));
    let reloaded = plexus.run(&["upstream", "reload"]).await;
    assert_eq!(reloaded.ok(), "Nothing has changed.\n");
}

#[tokio::test]
async fn import_skips_the_entry_written_by_connect() {
    let (plexus, _hub) = running().await;
    let codex = plexus.home().join(".codex/config.toml");
    std::fs::create_dir(codex.parent().expect("a folder")).expect("a folder");
    let servers = format!("[mcp_servers.local]\ncommand = {:?}\nargs = [\"--stdio\"]\n", fixture_program());
    std::fs::write(&codex, servers).expect("a file");
    plexus.run(&["connect", "--yes", "codex", "goose"]).await.ok();
    let path = codex.to_str().expect("UTF-8");
    let imported = plexus.run(&["upstream", "import", path]).await;
    assert!(imported.ok().starts_with("local\tadded\t"), "{imported:?}");
    assert!(imported.stderr.contains("\"plexus\" is this hub itself"), "{imported:?}");
    // Also in a YAML file without other servers.
    let goose = plexus.home().join(".config/goose/config.yaml");
    let imported = plexus.run(&["upstream", "import", goose.to_str().expect("UTF-8")]).await;
    assert!(imported.ok().is_empty() && imported.stderr.contains("is this hub itself"), "{imported:?}");
    // An entry of the same name with another URL is not this hub.
    let other = plexus.home().join("other.json");
    std::fs::write(&other, r#"{"mcpServers": {"plexus": {"url": "https://hub.example.net/mcp"}}}"#)
        .expect("a file");
    let refused = plexus.run(&["upstream", "import", other.to_str().expect("UTF-8")]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("its name is reserved for the hub itself"), "{refused:?}");
}

#[tokio::test]
async fn owner_allows_a_command_permanently_by_flag() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let program = fixture_program();
    let add = ["upstream", "add", "local", "--", &program, "--stdio"];
    let refused = plexus.run(&add).await;
    assert!(refused.failed(5).contains("hint: --allow-command"), "{refused:?}");
    // Only the local admin token has this right.
    let admin = hub.admin_token();
    let allowed = [&["upstream", "add", "local", "--allow-command"][..], &add[3..]].concat();
    let refused = plexus.run_with(&allowed, &[("PLEXUS_TOKEN", &admin)]).await;
    assert!(refused.failed(5).contains("requires the local admin token"), "{refused:?}");
    let added = plexus.run(&allowed).await;
    assert!(added.ok().starts_with("local is up and has "), "{added:?}");
    assert!(added.stderr.contains("allowed-commands.json"), "{added:?}");
    // The permission is stored.
    let again = plexus.run(&["upstream", "add", "second", "--", &program, "--stdio"]).await;
    assert!(again.ok().starts_with("second is up and has "), "{again:?}");
}

#[tokio::test]
async fn owner_at_a_terminal_is_asked_once_per_command() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let mut terminal = Terminal::shell(plexus.home(), &crate::program_folder());
    terminal.send(&format!("plexus upstream add local -- {} --stdio\r", fixture_program())).await;
    terminal.expect_on_screen("Allow the hub to run it permanently? [y/N]").await;
    terminal.send("n\r").await;
    terminal.expect_on_screen("is not in the setting `upstreams.commands`").await;
    // The prompt shows that the program has ended and reads no more keys.
    terminal.expect_on_screen("send the hub SIGHUP.\n$").await;
    terminal.clear().await;
    terminal.send(&format!("plexus upstream add local -- {} --stdio\r", fixture_program())).await;
    terminal.expect_on_screen("Allow the hub to run it permanently? [y/N]").await;
    terminal.send("y\r").await;
    terminal.expect_on_screen("local is up and has ").await;
    let again = plexus.run(&["upstream", "add", "second", "--", &fixture_program(), "--stdio"]).await;
    assert!(again.ok().starts_with("second is up and has "), "{again:?}");
}

/// Answers the prompts of a command for an unlisted program: first with no, then, in a second run, with yes.
async fn refuse_then_allow(plexus: &Plexus, command: &str, refused: &str, allowed: &str) {
    let mut terminal = Terminal::shell(plexus.home(), &crate::program_folder());
    let allowed_commands = plexus.data_dir().join("allowed-commands.json");
    for (answer, expected) in [("n", refused), ("y", allowed)] {
        // The shell prints the word after the command has ended, and the typed line does not contain it.
        terminal.send(&format!("{command}; echo en\"ded\"\r")).await;
        terminal.expect_on_screen("Allow the hub to run it permanently? [y/N]").await;
        assert!(!allowed_commands.exists(), "nothing is allowed before the answer");
        terminal.send(&format!("{answer}\r")).await;
        terminal.expect_on_screen("ended\n$").await;
        assert!(terminal.screen_text().contains(expected), "{expected:?}:\n{}", terminal.screen_text());
        assert_eq!(allowed_commands.exists(), answer == "y", "{}", terminal.screen_text());
        terminal.clear().await;
    }
    // The second time, the command is not asked about.
    terminal.send(&format!("{command}; echo en\"ded\"\r")).await;
    terminal.expect_on_screen("ended\n$").await;
    assert!(!terminal.screen_text().contains("Allow the hub"), "{}", terminal.screen_text());
}

#[tokio::test]
async fn owner_is_asked_before_an_unlisted_command_is_tested() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let command = format!("plexus upstream test trial -- {} --stdio", fixture_program());
    let refused = "is not in the setting `upstreams.commands`";
    refuse_then_allow(&plexus, &command, refused, "mcp__trial__echo").await;
    assert_eq!(plexus.run(&["upstream", "list", "--json"]).await.json(0)["items"], json!([]));
}

#[tokio::test]
async fn owner_is_asked_before_unlisted_commands_are_imported() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let file = plexus.home().join("mine.json");
    let server = json!({ "command": fixture_program(), "args": ["--stdio"] });
    std::fs::write(&file, json!({ "mcpServers": { "one": server, "two": server } }).to_string())
        .expect("a file");
    let command = "plexus upstream import mine.json";
    refuse_then_allow(&plexus, command, "2 of 2 servers skipped", "`plexus upstream list` shows").await;
    let items = plexus.run(&["upstream", "list", "--json"]).await.json(0)["items"].clone();
    let names: Vec<_> = items.as_array().expect("servers").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test]
async fn missing_program_is_named_with_its_installer() {
    let plexus = crate::plexus();
    let empty = plexus.home().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let plexus = plexus.with("PATH", empty.display().to_string());
    let _hub = plexus.up().await;
    let added = plexus.run(&["upstream", "add", "time", "--", "uvx", "mcp-server-time"]).await;
    let stderr = added.failed(1);
    assert!(stderr.contains("time did not come up: the program `uvx` was not found"), "{stderr}");
    assert!(stderr.contains("uvx comes with uv: https://docs.astral.sh/uv/"), "{stderr}");
    assert!(!stderr.contains(&empty.display().to_string()), "{stderr}");
}
