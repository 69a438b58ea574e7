//! Servers of agents that `plexus connect` moves behind the hub and `plexus disconnect` restores.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plexus_bridge::document::Syntax;
use plexus_testkit::Plexus;
use plexus_testkit::fixture::program;
use serde_json::{Value, json};

use super::{home, read, search_path, write};
use crate::pty::Terminal;

/// Has no known credential format; only the name of its variable shows that it is one.
const SECRET: &str = "hunter2-hunter2";

fn codex() -> String {
    let program = program().display().to_string();
    format!(
        "# Mine.\nmodel = \"o9\"\n\n[mcp_servers.files]   # local\ncommand = {program:?}\nargs = [ '--stdio' ]\n\n\
         [mcp_servers.files.env]\nAPI_TOKEN = \"{SECRET}\"\n\n[mcp_servers.odd]\ncommand = 1\n\n[tui]\ntheme = \"dark\"\n"
    )
}

fn claude() -> String {
    let files = json!({ "command": program(), "args": ["--stdio"], "env": { "API_TOKEN": SECRET } });
    format!("{{\"numStartups\": 7,\n  \"mcpServers\": {{ \"files\": {files} }} }}\n")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn server_files(plexus: &Plexus) -> Vec<String> {
    let folder = plexus.data_dir().join("mcp_servers.d");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn moved_servers_are_restored_byte_by_byte_on_disconnect() {
    let plexus = home();
    let hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    let other = write(&plexus, ".claude.json", &claude());
    let plan = plexus.run(&["connect", "--dry-run", "--move-servers"]).await;
    assert!(plan.ok().contains("  - files (moves behind the hub)"), "{plan:?}");
    assert!(plan.stdout.contains("odd stays in its settings: "), "{plan:?}");
    assert_eq!((read(&config), server_files(&plexus)), (codex(), vec![]));

    let run_output = plexus.run(&["connect", "--yes", "--move-servers"]).await;
    assert!(
        run_output.ok().contains("Codex is connected.")
            && run_output.stdout.contains("Now behind the hub: files."),
        "{run_output:?}"
    );
    let connected = read(&config);
    assert!(!connected.contains("files") && connected.contains("[mcp_servers.odd]"), "{connected}");
    assert!(
        connected.contains("[mcp_servers.plexus]") && connected.contains("theme = \"dark\""),
        "{connected}"
    );
    let both: Value = serde_json::from_str(&read(&other)).expect("JSON");
    assert_eq!(both["mcpServers"].as_object().map(|servers| servers.len()), Some(1), "{both}");
    // The hub has its file now; only the owner can read it and the ledger.
    let file = plexus.data_dir().join("mcp_servers.d/files.json");
    assert!(read(&file).contains(SECRET), "{}", read(&file));
    let ledger = plexus.data_dir().join("connect/ledger.json");
    assert_eq!((mode(&file), mode(&ledger)), (0o600, 0o600));
    let restarted = plexus.run(&["upstream", "restart", "files"]).await;
    assert!(restarted.ok().starts_with("files is up and has "), "{restarted:?}");

    let disconnected = plexus.run(&["disconnect", "--yes"]).await;
    assert!(
        disconnected.ok().contains("+ files (moves back)")
            && disconnected.stdout.contains("Back in its settings: files."),
        "{disconnected:?}"
    );
    assert_eq!((read(&config), read(&other)), (codex(), claude()));
    for output in [&plan, &run_output, &disconnected] {
        assert!(!output.stdout.contains(SECRET) && !output.stderr.contains(SECRET), "{output:?}");
    }
    assert!(!hub.log().contains(SECRET));
    let audit = plexus.run(&["audit", "list", "--json", "--limit", "200"]).await;
    assert!(!audit.stdout.contains(SECRET), "{audit:?}");
}

#[tokio::test]
async fn disconnect_says_what_the_hub_keeps_of_moved_servers() {
    let plexus = home();
    let _hub = plexus.up().await;
    write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await.ok();
    let disconnected = plexus.run(&["disconnect", "--yes"]).await;
    let file = plexus.data_dir().join("allowed-commands.json");
    assert!(read(&file).contains(&program().display().to_string()), "the command is still allowed");
    for line in [
        "  Still on the hub as well. To remove from there: plexus upstream remove files".to_owned(),
        format!("  Commands allowed for such servers stay allowed, in {}.", file.display()),
    ] {
        assert!(disconnected.ok().lines().any(|printed| printed == line), "{line:?}: {disconnected:?}");
    }
    let (_, command) = disconnected.stdout.split_once("there: ").expect("the command");
    plexus.shell(command.lines().next().expect("a line")).await.ok();
    assert!(server_files(&plexus).iter().all(|name| name != "files.json"), "{:?}", server_files(&plexus));

    // Without moved servers, nothing is said of them.
    plexus.run(&["connect", "codex", "--yes"]).await.ok();
    let disconnected = plexus.run(&["disconnect", "--yes"]).await;
    assert!(!disconnected.ok().contains("upstream remove"), "{disconnected:?}");
}

#[tokio::test]
async fn servers_are_restored_into_a_file_that_has_changed() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await.ok();
    std::fs::write(&config, read(&config).replace("dark", "light")).expect("a file");
    let disconnected = plexus.run(&["disconnect", "--yes"]).await;
    assert!(disconnected.ok().contains("codex is disconnected."), "{disconnected:?}");
    let text = read(&config);
    let parsed = |text: &str| Syntax::Toml.value(text).expect("TOML");
    assert_eq!(parsed(&text), parsed(&codex().replace("dark", "light")), "{text}");
    assert!(text.contains("args = [ '--stdio' ]"), "as it was written: {text}");
}

#[tokio::test]
async fn servers_move_again_although_the_hub_still_has_them() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    for _ in 0..2 {
        let run_output = plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await;
        assert!(run_output.ok().contains("Now behind the hub: files."), "{run_output:?}");
        assert!(!read(&config).contains("files"), "{}", read(&config));
        plexus.run(&["disconnect", "--yes"]).await.ok();
        assert_eq!(read(&config), codex());
    }
    assert_eq!(server_files(&plexus), ["files.json"]);
}

#[tokio::test]
async fn a_server_that_differs_from_the_hubs_of_the_same_name_stays() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await.ok();
    plexus.run(&["disconnect", "--yes"]).await.ok();
    let changed = codex().replace("'--stdio'", "'--stdio', '--eras', 'sessions'");
    write(&plexus, ".codex/config.toml", &changed);
    let run_output = plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await;
    assert!(
        run_output.ok().contains("files stays in its settings: ")
            && run_output.stdout.contains("already exists"),
        "{run_output:?}"
    );
    assert!(read(&config).contains("'--eras'"), "{}", read(&config));
}

#[tokio::test]
async fn servers_are_not_moved_unless_requested() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes"]).await.ok();
    assert!(read(&config).starts_with(&codex()), "{}", read(&config));
    assert!(server_files(&plexus).is_empty());
    plexus.run(&["disconnect", "--yes"]).await.ok();
}

#[tokio::test]
async fn moving_servers_is_offered_on_a_terminal() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    let mut terminal = Terminal::shell(plexus.home(), &search_path(&plexus));
    terminal.send("plexus connect codex\r").await;
    terminal.expect_on_screen("Codex (files).").await;
    terminal.expect_on_screen("Move them behind the hub, for all agents to use?").await;
    terminal.send("y\r").await;
    terminal.expect_on_screen("- files (moves behind the hub)").await;
    terminal.expect_on_screen("Write these changes? [y/N]").await;
    terminal.send("y\r").await;
    terminal.expect_on_screen("Now behind the hub: files.").await;
    terminal.expect_on_screen("To undo: plexus disconnect codex\n$").await;
    assert!(!terminal.screen_text().contains(SECRET));
    plexus.run(&["disconnect", "--yes"]).await.ok();
    assert_eq!(read(&config), codex());
}
