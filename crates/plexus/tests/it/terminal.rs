//! Differences between output to a terminal and to a pipe: colours, progress, table widths and short ids.

use serde_json::json;

use crate::pty::run_on_terminal;

const ESCAPE: char = '\u{1b}';

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
async fn work_in(hub: &plexus_testkit::HubProcess, folder: &str) {
    let token = hub.token("an-agent-with-a-long-name").await;
    let client = hub.mcp(&token.token).header("plexus-folder", folder);
    let text = "Rewrite the importer so that it reads both forms of dates, and tell what it left out";
    client.tool("todo", json!({ "action": "add", "text": text })).await;
    client.tool("todo", json!({ "action": "list" })).await;
}

#[tokio::test]
async fn tables_fit_the_terminal_and_pipes_get_whole_values() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let folder = "/home/ann/code/a-company/a-product/packages/frontend";
    work_in(&hub, folder).await;
    for command in [
        "token list",
        "token list --all",
        "audit list",
        "sessions list",
        "sessions stats",
        "config show --origin",
    ] {
        // A terminal without a size counts as 80 columns wide.
        for (setting, width) in [("", 80), ("stty cols 80; ", 80), ("stty cols 120; ", 120)] {
            let output = run_on_terminal(&plexus, &format!("{setting}TERM=dumb plexus {command}")).await;
            assert!(output.lines().count() > 1, "{command}: {output}");
            for line in output.lines().map(str::trim_end) {
                assert!(line.chars().count() <= width, "{command} is wider than {width}: {output}");
            }
        }
    }
    let id = plexus.run(&["sessions", "list", "--json"]).await.json(0)["items"][0]["id"].clone();
    let id = id.as_str().expect("an id");
    let row = plexus.run(&["sessions", "list"]).await;
    let cells: Vec<&str> = row.ok().trim_end().split('\t').collect();
    assert_eq!(cells[..3], [id, "an-agent-with-a-long-name", folder], "{row:?}");
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
