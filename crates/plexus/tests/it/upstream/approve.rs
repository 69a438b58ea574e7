//! `plexus upstream approve`: showing, asking and approving.

use plexus_testkit::fixture::Scripted;
use plexus_testkit::{HubProcess, Plexus, ProgramOutput};
use serde_json::{Value, json};

use super::running;
use crate::pty::Terminal;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

/// Adds a scripted server.
async fn add(plexus: &Plexus, name: &str, server: &Scripted) -> ProgramOutput {
    let file = server.file();
    let args: Vec<&str> =
        file["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let program = file["command"].as_str().unwrap();
    plexus.run(&[&["upstream", "add", name, "--", program][..], &args].concat()).await
}

/// A hub with a server `s`, which has added tools with these names since it was first seen.
async fn with_pending_tools(names: &[&str]) -> (Plexus, HubProcess) {
    let (plexus, hub) = running().await;
    let server = Scripted::new(plexus.home().join("script.json"));
    server.set_script(&[json!([tool("stay", "Stays.")])], None);
    add(&plexus, "s", &server).await.ok();
    let new = names.iter().map(|name| tool(name, "Is new."));
    server.set_script(&[new.chain([tool("stay", "Stays.")]).collect()], None);
    plexus.run(&["upstream", "restart", "s"]).await.ok();
    (plexus, hub)
}

/// The output of a command on a terminal. Each step is an expected text, and the keys that are then typed.
async fn at_a_terminal(plexus: &Plexus, command: &str, steps: &[(&str, &str)]) -> String {
    let mut terminal = Terminal::line(plexus, command);
    for (expected, keys) in steps {
        terminal.expect(expected).await;
        terminal.send(keys).await;
    }
    terminal.finish().await.1
}

#[tokio::test]
async fn at_a_terminal_each_tool_is_shown_and_approved_separately() {
    let (plexus, _hub) = with_pending_tools(&["five", "four", "one", "two"]).await;
    let command = "TERM=xterm plexus upstream approve s";
    let steps = [
        // An invalid answer is explained, and the question repeated.
        ("Approve five (1 of 4)", "perhaps\n"),
        ("leave it in quarantine", "n\n"),
        ("Approve four (2 of 4)", "y\n"),
        // Ctrl-C.
        ("Approve one (3 of 4)", "\x03"),
    ];
    let output = at_a_terminal(&plexus, command, &steps).await;
    let positions =
        ["five is new", "Approve five", "four is new", "Approve four", "Approved four.", "one is new"];
    let positions = positions.map(|part| output.find(part).unwrap_or_else(|| panic!("{part}: {output}")));
    assert!(positions.is_sorted(), "{output}");
    assert!(
        output.contains("Approved: four.") && output.contains("Still in quarantine: five, one, two."),
        "{output}"
    );
    assert!(output.contains("  \u{1B}[32m+ description: Is new.\u{1B}[0m"), "{output:?}");

    // Ctrl-D, without colours.
    let command = "NO_COLOR=1 plexus upstream approve s";
    let output = at_a_terminal(&plexus, command, &[("Approve five (1 of 3)", "\x04")]).await;
    assert!(output.contains("Nothing was approved.") && !output.contains("\u{1B}[32m"), "{output:?}");
    // Quitting, and approving all the rest, which are shown too.
    let output = at_a_terminal(&plexus, command, &[("1 of 3", "n\n"), ("2 of 3", "q\n")]).await;
    assert!(output.contains("Nothing was approved.") && !output.contains("two is new"), "{output}");
    let output = at_a_terminal(&plexus, command, &[("1 of 3", "n\n"), ("2 of 3", "a\n")]).await;
    assert!(output.contains("two is new") && !output.contains("3 of 3"), "{output}");
    assert!(
        output.contains("Approved: one, two.") && output.contains("Still in quarantine: five."),
        "{output}"
    );
    assert_eq!(plexus.run(&["tools", "call", "mcp__s__two"]).await.ok(), "called two\n");
}

#[tokio::test]
async fn named_tools_are_shown_and_unknown_or_approved_ones_distinguished() {
    let (plexus, _hub) = with_pending_tools(&["save_note", "share_note"]).await;
    let approve = async |args: &[&str]| plexus.run(&[&["upstream", "approve", "s"], args].concat()).await;
    // The command in the hint approves only the named tool.
    let shown = approve(&["mcp__s__save_note"]).await;
    let hint = "`plexus upstream approve s mcp__s__save_note --yes` approves it\n";
    assert!(shown.code == Some(1) && shown.stderr.ends_with(hint), "{shown:?}");
    assert!(!shown.stdout.contains("share_note"), "{shown:?}");
    let json = approve(&["save_note", "--json"]).await.json(0);
    let names: Vec<&str> =
        json["items"].as_array().unwrap().iter().filter_map(|i| i["name"].as_str()).collect();
    assert_eq!(names, ["save_note"], "{json}");

    for (name, expected) in [
        ("save_nte", "error: s has no tool save_nte\nhint: did you mean save_note?"),
        ("stya", "did you mean stay?"),
        ("wholly_different", "in quarantine: save_note, share_note"),
        (
            "mcp__web__get",
            "error: mcp__web__get is not a tool of s, but of web\nhint: plexus upstream approve web mcp__web__get",
        ),
    ] {
        let wrong = approve(&[name, "--yes"]).await;
        assert!(wrong.failed(1).contains(expected), "{name}: {wrong:?}");
        assert_eq!(approve(&[name, "--json"]).await.code, Some(1), "{name}");
    }
    for name in ["stay", "mcp__s__stay", "(instructions)"] {
        let done = approve(&[name, "--yes"]).await;
        assert_eq!(
            (done.ok(), done.stderr.as_str()),
            ("", format!("{name} is already approved.\n").as_str())
        );
    }
    let json = approve(&["stay", "--yes", "--json"]).await.json(0);
    assert_eq!(json, json!({ "name": "s", "approved": [], "pending": ["save_note", "share_note"] }));
    let both = approve(&["stay", "save_note", "--yes"]).await;
    assert!(both.ok().ends_with("Approved: save_note.\n"), "{both:?}");
    assert!(both.stderr.contains("stay is already approved.\n"), "{both:?}");

    // Pending tools of a disabled server are not reported as none.
    plexus.run(&["upstream", "disable", "s"]).await.ok();
    for args in [&["--all", "--yes"][..], &["--json"], &[]] {
        let off = approve(args).await;
        let stderr = off.failed(1);
        assert!(stderr.contains("s is disabled: its quarantine is unknown until it is up"), "{stderr}");
        assert!(stderr.contains("plexus upstream enable s"), "{stderr}");
    }
}

#[tokio::test]
async fn quarantined_tools_are_named_in_summaries() {
    let names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7"];
    let (plexus, hub) = with_pending_tools(&names).await;
    let status = plexus.run(&["status"]).await;
    let expected = "servers\t1 ready of 1, 7 tools in quarantine: see `plexus upstream list`\n";
    assert!(status.ok().contains(expected), "{status:?}");
    let doctor = plexus.run(&["doctor", "--json"]).await.json(0).to_string();
    let expected =
        "s has 7 tools in quarantine: a1 (new), a2 (new), a3 (new), a4 (new), a5 (new), and 2 more\"";
    assert!(doctor.contains(expected), "{doctor}");
    for command in ["show", "call"] {
        let unknown = plexus.run(&["tools", command, "mcp__s__a1"]).await;
        let stderr = unknown.failed(1);
        assert!(
            stderr.contains("It is in quarantine") && stderr.contains("`plexus upstream approve s`"),
            "{stderr}"
        );
    }
    // Other principals do not learn of the quarantine.
    let token = hub.token("agent").await.token;
    let refused = plexus.run_with(&["tools", "show", "mcp__s__a1"], &[("PLEXUS_TOKEN", &token)]).await;
    let stderr = refused.failed(1);
    assert!(!stderr.contains("quarantine") && stderr.contains("Unknown tool"), "{stderr}");

    let other = Scripted::new(plexus.home().join("other.json"));
    other.set_script(&[json!([tool("odd", "Odd.\u{202E}")])], None);
    add(&plexus, "t", &other).await.ok();
    let list = plexus.run(&["upstream", "list"]).await;
    let expected = "Servers with tools in quarantine: s, t. `plexus upstream approve NAME` shows them.\n";
    assert!(list.stderr.contains(expected), "{list:?}");
}

#[tokio::test]
async fn changed_tools_are_reported_shown_and_approved_on_request() {
    let (plexus, hub) = running().await;
    let server = Scripted::new(plexus.home().join("script.json"));
    let says = |tools: Value| server.set_script(&[tools], None);
    says(json!([tool("say", "Says it."), tool("stay", "Stays."), tool("odd", "Odd.\u{202E}")]));
    let added = add(&plexus, "s", &server).await;
    assert!(added.ok().starts_with("s is up and has 2 tools:"), "{added:?}");
    assert!(added.stderr.contains("not listed: odd (flagged): hidden text in description"), "{added:?}");

    says(json!([tool("say", "Says it. And more."), tool("stay", "Stays."), tool("new", "Is new.")]));
    plexus.run(&["upstream", "restart", "s"]).await.ok();
    let list = plexus.run(&["upstream", "list"]).await;
    assert!(
        list.ok().contains("; 2 quarantined") && list.stderr.contains("plexus upstream approve s"),
        "{list:?}"
    );
    let shown = plexus.run(&["upstream", "show", "s"]).await;
    assert!(shown.ok().contains("Quarantined\n  new (new)\n  say (changed)\n"), "{shown:?}");
    let doctor = plexus.run(&["doctor", "--json"]).await.json(0).to_string();
    assert!(doctor.contains("s has 2 tools in quarantine: new (new), say (changed)"), "{doctor}");
    let called = plexus.run(&["tools", "call", "mcp__s__say"]).await;
    assert!(called.failed(1).contains("`plexus upstream approve s`"), "{called:?}");

    // Without a terminal, the changes are only shown.
    let shown = plexus.run(&["upstream", "approve", "s"]).await;
    assert_eq!(shown.code, Some(1), "{shown:?}");
    for part in ["say has changed since it was approved by tofu on ", "\n  +   And more.\n", "new is new\n"] {
        assert!(shown.stdout.contains(part), "{part}: {shown:?}");
    }
    assert!(shown.stderr.contains("--all --yes"), "{shown:?}");
    let json = plexus.run(&["upstream", "approve", "s", "--json"]).await.json(0);
    assert_eq!(json["items"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(plexus.run(&["upstream", "approve", "s", "--yes"]).await.code, Some(2));

    let one = plexus.run(&["upstream", "approve", "s", "mcp__s__say", "--yes"]).await;
    assert!(
        one.ok().ends_with("Approved: say.\n") && one.stderr.contains("Still in quarantine: new."),
        "{one:?}"
    );
    assert_eq!(plexus.run(&["tools", "call", "mcp__s__say"]).await.ok(), "called say\n");

    let command = "TERM=dumb plexus upstream approve s";
    let output = at_a_terminal(&plexus, command, &[("Approve new? [y/n/a/q]", "y\n")]).await;
    assert!(output.contains("Approved: new.") && !output.contains('\u{1B}'), "{output:?}");
    let nothing = plexus.run(&["upstream", "approve", "s", "--all", "--yes"]).await;
    assert_eq!(nothing.ok(), "s has nothing in quarantine.\n");
    let agent = hub.token("agent").await.token;
    let result = hub.mcp(&agent).tool("mcp__s__new", json!({})).await;
    assert_eq!(result["content"][0]["text"], "called new", "{result}");
}
