//! Differences between output to a terminal and to a pipe: colours, progress, table widths and short ids.

use plexus_testkit::fixture::program;
use plexus_testkit::{HubProcess, Plexus};
use serde_json::json;

use crate::nodes::join;
use crate::outbox::{fill, open_outbox};
use crate::pty::run_on_terminal;

const ESCAPE: char = '\u{1b}';
/// Where an agent works.
const FOLDER: &str = "/home/ann/code/a-company/a-product/packages/frontend";

#[tokio::test]
async fn terminal_output_is_coloured_and_pipe_output_is_not() {
    let plexus = crate::plexus();
    // The help from clap, and a log line.
    for line in ["plexus --help", "PLEXUS_LOG=no=such=level plexus config check"] {
        let coloured = run_on_terminal(&plexus, &format!("TERM=xterm {line}")).await;
        assert!(coloured.contains(ESCAPE), "{line}: {coloured:?}");
        for variables in ["TERM=dumb", "TERM=xterm NO_COLOR=1"] {
            let plain = run_on_terminal(&plexus, &format!("{variables} {line}")).await;
            assert!(!plain.contains(ESCAPE) && plain.len() > 20, "{variables} {line}: {plain:?}");
        }
        let piped = plexus.shell(&format!("TERM=xterm {line} 2>&1 | cat")).await;
        assert!(!piped.stdout.contains(ESCAPE) && piped.stdout.len() > 20, "{piped:?}");
    }
}

#[tokio::test]
async fn progress_is_shown_on_terminals_only() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let output = run_on_terminal(&plexus, "TERM=dumb plexus audit verify").await;
    assert!(output.contains("Verified the audit in ") && output.contains("Intact: "), "{output:?}");
    let piped = plexus.run(&["audit", "verify"]).await;
    assert!(piped.ok().starts_with("Intact: "), "{piped:?}");
    assert_eq!(piped.stderr, "");
}

/// Makes two calls of an agent that works in this folder.
async fn work_in(hub: &HubProcess, folder: &str) {
    let token = hub.token("an-agent-with-a-long-name").await;
    let client = hub.mcp(&token.token).header("plexus-folder", folder);
    let text = "Rewrite the importer so that it reads both forms of dates, and tell what it left out";
    client.tool("todo", json!({ "action": "add", "text": text })).await;
    client.tool("todo", json!({ "action": "list" })).await;
}

/// A hub with something in each list: an agent and its calls, a node that is offline, a server, a profile, and queued writes.
async fn busy_hub() -> (Plexus, HubProcess) {
    let plexus = crate::plexus().with("PLEXUS_UPSTREAMS_COMMANDS", program().display().to_string());
    let profile = plexus.data_dir().join("profiles/small");
    std::fs::create_dir_all(&profile).expect("a folder");
    let config = json!({ "description": "A profile with few tools, for models with a small context and little patience",
        "enabled_tools": ["todo", "zebra"] });
    std::fs::write(profile.join("config.json"), config.to_string()).expect("a file");
    let hub = plexus.up().await;
    work_in(&hub, FOLDER).await;
    let token = hub.token("codex").await;
    let refused = hub.mcp(&token.token).tool("todo", json!({ "action": "finish", "id": 4711 })).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let server = program().display().to_string();
    plexus.run(&["upstream", "add", "local", "--", &server, "--stdio"]).await.ok();
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let machine = crate::plexus();
    join(&plexus, &machine, &hub.url(""), "a-machine-with-a-long-name", &["--label", "role=storage"]).await;
    let outbox = open_outbox(&plexus, "codex-0011aabb").await;
    fill(&outbox, &["one", "two"], 1).await;
    (plexus, hub)
}

/// Lines that are wider than the terminal, except a single word, such as a path, beside the label of a field.
fn too_wide(output: &str, width: usize, has_fields: bool) -> Vec<&str> {
    let is_field = |line: &&str| {
        let (label, _) = line.rsplit_once(' ').unwrap_or(("", line));
        let label = label.trim();
        // The level and the check of a finding are two cells.
        let is_finding =
            label.starts_with("ok ") || label.starts_with("warning ") || label.starts_with("problem ");
        has_fields && (is_finding || !label.contains("  "))
    };
    let wide = output.lines().map(str::trim_end).filter(|line| line.chars().count() > width);
    wide.filter(|line| !is_field(line)).collect()
}

#[tokio::test]
async fn no_list_is_wider_than_the_terminal() {
    let (plexus, _hub) = busy_hub().await;
    for command in [
        "status",
        "doctor",
        "node list",
        "node show local",
        "node show a-machine-with-a-long-name",
        "upstream list",
        "upstream show local",
        "tools list",
        "tools show todo",
        "tools cost",
        "outbox list",
        "outbox show 1",
        "keys list",
        "profile list",
        "profile show small",
        "sync list",
        "sessions list",
        "sessions stats",
        "events -n 100",
        "audit list",
        "token list",
        "token list --all",
        "config show",
        "config show --origin",
        "db status",
    ] {
        // A terminal without a size counts as 80 columns wide.
        for (setting, width) in [("", 80), ("stty cols 80; ", 80), ("stty cols 120; ", 120)] {
            let line = format!("{setting}TERM=dumb plexus {command} 2>/dev/null");
            let output = run_on_terminal(&plexus, &line).await;
            assert!(output.lines().count() > 1, "{command}: {output}");
            let has_fields = ["status", "doctor"].contains(&command) || command.contains(" show ");
            let wide = too_wide(&output, width, has_fields);
            assert!(wide.is_empty(), "{command} is wider than {width}: {wide:#?}\nin {output}");
        }
    }
}

#[tokio::test]
async fn advice_is_wrapped_on_a_terminal_and_whole_in_a_pipe() {
    let (plexus, _hub) = busy_hub().await;
    let fields = run_on_terminal(&plexus, "stty cols 60; TERM=dumb plexus status").await;
    let chain = "audit chain    matched its signed head when the hub started;\r\n               \
                 `plexus audit verify` checks all entries\r\n";
    assert!(fields.contains(chain), "{fields}");
    let problem = "- dead letters: 1\r\n  fix: plexus outbox list --dead\r\n";
    assert!(fields.contains(problem), "{fields}");
    let piped = plexus.run(&["status"]).await;
    for line in [
        "audit chain\tmatched its signed head when the hub started; `plexus audit verify` checks all entries",
        "problem\tdead letters: 1\tplexus outbox list --dead",
    ] {
        assert!(piped.ok().lines().any(|printed| printed == line), "{line:?} is not in {piped:?}");
    }
    let database = plexus.data_dir().join("plexus.db").display().to_string();
    let narrow = run_on_terminal(&plexus, "stty cols 40; TERM=dumb plexus doctor").await;
    assert!(narrow.lines().any(|line| line.trim() == database), "a path is not broken: {narrow}");
}

#[tokio::test]
async fn tables_show_the_important_parts_and_pipes_get_whole_values() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    work_in(&hub, FOLDER).await;
    let id = plexus.run(&["sessions", "list", "--json"]).await.json(0)["items"][0]["id"].clone();
    let id = id.as_str().expect("an id");
    let row = plexus.run(&["sessions", "list"]).await;
    let cells: Vec<&str> = row.ok().trim_end().split('\t').collect();
    assert_eq!(cells[..3], [id, "an-agent-with-a-long-name", FOLDER], "{row:?}");
    assert!(cells[3].ends_with("tell what it left out") && cells[4] == "2", "{row:?}");
    let output = run_on_terminal(&plexus, "stty cols 80; TERM=dumb plexus sessions list").await;
    assert!(!output.contains(&id[..20]) && output.contains(&id[28..]), "{output}");
    assert!(output.contains("/frontend") && output.contains("Rewrite the"), "{output}");
}

#[tokio::test]
async fn commands_accept_the_shortened_ids_of_tables() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    work_in(&hub, "/tmp").await;
    for (list, show, key) in [
        (["sessions", "list"], ["sessions", "show"], "id"),
        (["sessions", "list"], ["sessions", "stats"], "id"),
        (["audit", "list"], ["audit", "show"], "call_id"),
        (["token", "list"], ["token", "show"], "jti"),
    ] {
        let items = plexus.run(&[list[0], list[1], "--json"]).await.json(0)["items"].clone();
        let id = items[0][key].as_str().expect("an id").to_owned();
        let shown = plexus.run(&[show[0], show[1], &id[28..]]).await;
        assert!(shown.ok().contains(&id), "{shown:?}");
        // No id ends like this, as UUIDs have their version and variant at these digits.
        let none = plexus.run(&[show[0], show[1], "00000000-0000"]).await;
        assert!(none.code != Some(0) && none.stderr.contains("00000000-0000"), "{none:?}");
    }
}

#[tokio::test]
async fn ambiguous_end_of_an_id_lists_the_candidates() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    for name in ["one", "other"] {
        plexus.run(&["tools", "call", "todo", "--arg", "action=list", "--session", name]).await.ok();
    }
    assert!(hub.terminate().await.success());
    let mut table = crate::tampering::AuditTable::open(&plexus.data_dir()).await;
    // Inserts copies, since an id cannot be changed while other rows refer to it.
    let sql = "INSERT INTO sessions (id, owner, key, created_at, updated_at, last_seq) \
               SELECT substr(id, 1, 28) || 'cafecafe', owner, key || '-copy', 0, 0, 0 FROM sessions";
    assert!(table.execute(sql).await >= 2);
    drop(table);
    let _hub = plexus.up().await;
    let items = plexus.run(&["sessions", "list", "--json"]).await.json(0)["items"].clone();
    let ids: Vec<&str> =
        items.as_array().expect("sessions").iter().filter_map(|one| one["id"].as_str()).collect();
    let same_end: Vec<&&str> = ids.iter().filter(|id| id.ends_with("cafecafe")).collect();
    let refused = plexus.run(&["sessions", "show", "cafecafe"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(same_end.len() >= 2 && same_end.iter().all(|id| refused.stderr.contains(**id)), "{refused:?}");
    // A table shows enough of both ids to distinguish them, and commands accept that.
    let output = run_on_terminal(&plexus, "TERM=dumb plexus sessions list").await;
    for id in same_end {
        let shown =
            output.split_whitespace().find(|word| word.len() > 8 && id.ends_with(word)).expect("its end");
        assert!(plexus.run(&["sessions", "show", shown]).await.ok().contains(*id));
    }
}

#[tokio::test]
async fn log_on_a_terminal_is_readable_or_json() {
    let plexus = crate::plexus();
    let up = |setting: &'static str| {
        format!("{setting} timeout -s INT 5 plexus up --mcp-dir /nonexistent --listen 127.0.0.1:0")
    };
    let output = run_on_terminal(&plexus, &up("TERM=dumb TZ=UTC")).await;
    let warning =
        output.lines().find(|line| line.contains("of --mcp-dir does not exist")).expect("a line of the log");
    let (time, rest) = warning.split_once(' ').expect("a time");
    assert!(time.len() == 8 && time.chars().all(|c| c.is_ascii_digit() || c == ':'), "{warning}");
    assert!(
        rest.starts_with(" WARN the folder /nonexistent of --mcp-dir") && !rest.contains("plexus::"),
        "{warning}"
    );
    let coloured = run_on_terminal(&plexus, &up("TERM=xterm")).await;
    assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m the folder /nonexistent"), "{coloured:?}");
    let json = run_on_terminal(&plexus, &format!("{} --log-format json", up("TERM=xterm"))).await;
    let line =
        json.lines().find(|line| line.contains("of --mcp-dir does not exist")).expect("a line of the log");
    let value: serde_json::Value = serde_json::from_str(line.trim()).expect("JSON");
    assert_eq!(value["level"], "WARN");
}
