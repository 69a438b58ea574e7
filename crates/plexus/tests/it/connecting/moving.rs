//! Servers of agents that move behind the hub, and come back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plexus_bridge::document::Syntax;
use plexus_testkit::Plexus;
use plexus_testkit::fixture::program;
use serde_json::{Value, json};

use super::{home, read, write};
use crate::screen::Screen;

/// Of no known form, so only its place says what it is.
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

fn names(plexus: &Plexus) -> Vec<String> {
    let folder = plexus.data_dir().join("mcp_servers.d");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn servers_move_behind_the_hub_and_disconnect_puts_them_back_byte_by_byte() {
    let plexus = home();
    let hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    let other = write(&plexus, ".claude.json", &claude());
    let plan = plexus.run(&["connect", "--dry-run", "--move-servers"]).await;
    assert!(plan.ok().contains("  - files (moves behind the hub)"), "{plan:?}");
    assert!(plan.stdout.contains("odd stays in its settings: "), "{plan:?}");
    assert_eq!((read(&config), names(&plexus)), (codex(), vec![]));

    let ran = plexus.run(&["connect", "--yes", "--move-servers"]).await;
    assert!(
        ran.ok().contains("Codex is connected.") && ran.stdout.contains("Now behind the hub: files."),
        "{ran:?}"
    );
    let connected = read(&config);
    assert!(!connected.contains("files") && connected.contains("[mcp_servers.odd]"), "{connected}");
    assert!(
        connected.contains("[mcp_servers.plexus]") && connected.contains("theme = \"dark\""),
        "{connected}"
    );
    let both: Value = serde_json::from_str(&read(&other)).expect("JSON");
    assert_eq!(both["mcpServers"].as_object().map(|servers| servers.len()), Some(1), "{both}");
    // Its file is the hub's, and nobody else reads it or what was taken out.
    let file = plexus.data_dir().join("mcp_servers.d/files.json");
    assert!(read(&file).contains(SECRET), "{}", read(&file));
    let kept = plexus.data_dir().join("connect/ledger.json");
    assert_eq!((mode(&file), mode(&kept)), (0o600, 0o600));
    let restarted = plexus.run(&["upstream", "restart", "files"]).await;
    assert!(restarted.ok().starts_with("files is up and brings "), "{restarted:?}");

    let gone = plexus.run(&["disconnect", "--yes"]).await;
    assert!(
        gone.ok().contains("+ files (moves back)") && gone.stdout.contains("Back in its settings: files."),
        "{gone:?}"
    );
    assert_eq!((read(&config), read(&other)), (codex(), claude()));
    for said in [&plan, &ran, &gone] {
        assert!(!said.stdout.contains(SECRET) && !said.stderr.contains(SECRET), "{said:?}");
    }
    assert!(!hub.log().contains(SECRET));
    let audit = plexus.run(&["audit", "list", "--json", "--limit", "200"]).await;
    assert!(!audit.stdout.contains(SECRET), "{audit:?}");
}

#[tokio::test]
async fn servers_come_back_into_a_file_that_was_changed_since() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes", "--move-servers"]).await.ok();
    std::fs::write(&config, read(&config).replace("dark", "light")).expect("a file");
    let gone = plexus.run(&["disconnect", "--yes"]).await;
    assert!(gone.ok().contains("codex is disconnected."), "{gone:?}");
    let text = read(&config);
    let parsed = |text: &str| Syntax::Toml.value(text).expect("TOML");
    assert_eq!(parsed(&text), parsed(&codex().replace("dark", "light")), "{text}");
    assert!(text.contains("args = [ '--stdio' ]"), "as it was written: {text}");
}

#[tokio::test]
async fn servers_stay_where_they_are_unless_that_was_asked_for() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    plexus.run(&["connect", "codex", "--yes"]).await.ok();
    assert!(read(&config).starts_with(&codex()), "{}", read(&config));
    assert!(names(&plexus).is_empty());
    plexus.run(&["disconnect", "--yes"]).await.ok();
}

#[tokio::test]
async fn servers_are_offered_on_a_terminal() {
    let plexus = home();
    let _hub = plexus.up().await;
    let config = write(&plexus, ".codex/config.toml", &codex());
    let programs = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().expect("a folder").display();
    let path = format!("{programs}:{}:/usr/bin:/bin", plexus.home().join("bin").display());
    let mut screen = Screen::open(plexus.home(), &[("PATH", path)]);
    screen.types("plexus connect codex\r").await;
    screen.sees("Codex (files).").await;
    screen.sees("Move them behind the hub, for all agents to use?").await;
    screen.types("y\r").await;
    screen.sees("- files (moves behind the hub)").await;
    screen.sees("Write these changes? [y/N]").await;
    screen.types("y\r").await;
    screen.sees("Now behind the hub: files.").await;
    screen.sees("To undo: plexus disconnect codex\n$").await;
    assert!(!screen.text().contains(SECRET));
    plexus.run(&["disconnect", "--yes"]).await.ok();
    assert_eq!(read(&config), codex());
}
