//! What a terminal gets and a pipe does not: colours, for those who want them, and progress.

use plexus_testkit::Plexus;
use serde_json::json;

const ESCAPE: char = '\u{1b}';

/// What a line prints on a terminal, both streams together. `script` gives it one.
async fn on_a_terminal(plexus: &Plexus, line: &str) -> String {
    let ran = plexus.shell(&format!("script -qec '{line}' /dev/null < /dev/null")).await;
    ran.stdout
}

#[tokio::test]
async fn a_terminal_has_colours_and_a_pipe_has_none() {
    let plexus = crate::plexus();
    // The help of clap, a line of the log.
    for line in ["plexus --help", "PLEXUS_LOG=no=such=level plexus config check"] {
        let coloured = on_a_terminal(&plexus, &format!("TERM=xterm {line}")).await;
        assert!(coloured.contains(ESCAPE), "{line}: {coloured:?}");
        for wish in ["TERM=dumb", "TERM=xterm NO_COLOR=1"] {
            let plain = on_a_terminal(&plexus, &format!("{wish} {line}")).await;
            assert!(!plain.contains(ESCAPE) && plain.len() > 20, "{wish} {line}: {plain:?}");
        }
        let piped = plexus.shell(&format!("TERM=xterm {line} 2>&1 | cat")).await;
        assert!(!piped.stdout.contains(ESCAPE) && piped.stdout.len() > 20, "{piped:?}");
    }
}

#[tokio::test]
async fn progress_is_for_a_terminal_and_leaves_one_line() {
    let plexus = crate::plexus();
    let _hub = plexus.up().await;
    let seen = on_a_terminal(&plexus, "TERM=dumb plexus audit verify").await;
    assert!(seen.contains("Verified the audit in ") && seen.contains("Intact: "), "{seen:?}");
    let piped = plexus.run(&["audit", "verify"]).await;
    assert!(piped.ok().starts_with("Intact: "), "{piped:?}");
    assert_eq!(piped.stderr, "");
}

/// An agent that works in this folder makes two calls.
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
        // The terminal of `script` has no width until somebody says one.
        for (setting, width) in [("", 80), ("stty cols 80; ", 80), ("stty cols 120; ", 120)] {
            let seen = on_a_terminal(&plexus, &format!("{setting}TERM=dumb plexus {command}")).await;
            assert!(seen.lines().count() > 1, "{command}: {seen}");
            for line in seen.lines().map(str::trim_end) {
                assert!(line.chars().count() <= width, "{command} is wider than {width}: {seen}");
            }
        }
    }
    let id = plexus.run(&["sessions", "list", "--json"]).await.json(0)["items"][0]["id"].clone();
    let id = id.as_str().expect("an id");
    let row = plexus.run(&["sessions", "list"]).await;
    let cells: Vec<&str> = row.ok().trim_end().split('\t').collect();
    assert_eq!(cells[..3], [id, "an-agent-with-a-long-name", folder], "{row:?}");
    assert!(cells[3].ends_with("tell what it left out") && cells[4] == "2", "{row:?}");
    let seen = on_a_terminal(&plexus, "stty cols 80; TERM=dumb plexus sessions list").await;
    assert!(!seen.contains(&id[..20]) && seen.contains(&id[28..]), "{seen}");
    assert!(seen.contains("/frontend") && seen.contains("Rewrite the"), "{seen}");
}

#[tokio::test]
async fn commands_take_the_ids_that_tables_show() {
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
        // The version and the variant of all ids stand here: `7xxx-8xxx` never ends one.
        let none = plexus.run(&[show[0], show[1], "00000000-0000"]).await;
        assert!(none.code != Some(0) && none.stderr.contains("00000000-0000"), "{none:?}");
    }
}

#[tokio::test]
async fn an_end_that_several_ids_have_names_the_candidates() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    for name in ["one", "other"] {
        plexus.run(&["tools", "call", "todo", "--arg", "action=list", "--session", name]).await.ok();
    }
    assert!(hub.terminate().await.success());
    let mut table = crate::tampering::Table::open(&plexus.data_dir()).await;
    // Only sessions that nothing refers to can get another id.
    let sql = "INSERT INTO sessions (id, owner, key, created_at, updated_at, last_seq) \
               SELECT substr(id, 1, 28) || 'cafecafe', owner, key || '-copy', 0, 0, 0 FROM sessions";
    assert!(table.execute(sql).await >= 2);
    drop(table);
    let _hub = plexus.up().await;
    let items = plexus.run(&["sessions", "list", "--json"]).await.json(0)["items"].clone();
    let ids: Vec<&str> =
        items.as_array().expect("sessions").iter().filter_map(|one| one["id"].as_str()).collect();
    let alike: Vec<&&str> = ids.iter().filter(|id| id.ends_with("cafecafe")).collect();
    let refused = plexus.run(&["sessions", "show", "cafecafe"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(alike.len() >= 2 && alike.iter().all(|id| refused.stderr.contains(**id)), "{refused:?}");
    // A table shows as much of both as tells them apart, and that is taken.
    let seen = on_a_terminal(&plexus, "TERM=dumb plexus sessions list").await;
    for id in alike {
        let shown =
            seen.split_whitespace().find(|word| word.len() > 8 && id.ends_with(word)).expect("its end");
        assert!(plexus.run(&["sessions", "show", shown]).await.ok().contains(*id));
    }
}

#[tokio::test]
async fn the_log_on_a_terminal_is_for_a_person_and_json_for_a_program() {
    let plexus = crate::plexus();
    let up = |setting: &'static str| {
        format!("{setting} timeout -s INT 5 plexus up --mcp-dir /nonexistent --listen 127.0.0.1:0")
    };
    let seen = on_a_terminal(&plexus, &up("TERM=dumb TZ=UTC")).await;
    let warning = seen.lines().find(|line| line.contains("--mcp-dir names")).expect("a line of the log");
    let (time, rest) = warning.split_once(' ').expect("a time");
    assert!(time.len() == 8 && time.chars().all(|c| c.is_ascii_digit() || c == ':'), "{warning}");
    assert!(rest.starts_with(" WARN --mcp-dir names") && !rest.contains("plexus::"), "{warning}");
    let coloured = on_a_terminal(&plexus, &up("TERM=xterm")).await;
    assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m --mcp-dir"), "{coloured:?}");
    let json = on_a_terminal(&plexus, &format!("{} --log-format json", up("TERM=xterm"))).await;
    let line = json.lines().find(|line| line.contains("--mcp-dir names")).expect("a line of the log");
    let value: serde_json::Value = serde_json::from_str(line.trim()).expect("JSON");
    assert_eq!(value["level"], "WARN");
}
