//! `plexus upstream approve`: seen, asked about, and listed.

use plexus_testkit::fixture::Scripted;
use plexus_testkit::{HubProcess, Plexus, Ran};
use serde_json::{Value, json};

use super::running;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

/// Adds a server that says what a script does.
async fn add(plexus: &Plexus, name: &str, server: &Scripted) -> Ran {
    let file = server.file();
    let words: Vec<&str> =
        file["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let program = file["command"].as_str().unwrap();
    plexus.run(&[&["upstream", "add", name, "--", program][..], &words].concat()).await
}

/// A hub with a server `s`, whose tools of these names have come after it was first seen and wait.
async fn waiting(names: &[&str]) -> (Plexus, HubProcess) {
    let (plexus, hub) = running().await;
    let server = Scripted::new(plexus.home().join("script.json"));
    server.says(&[json!([tool("stay", "Stays.")])], None);
    add(&plexus, "s", &server).await.ok();
    let new = names.iter().map(|name| tool(name, "Is new."));
    server.says(&[new.chain([tool("stay", "Stays.")]).collect()], None);
    plexus.run(&["upstream", "restart", "s"]).await.ok();
    (plexus, hub)
}

/// What is seen on a terminal when these steps are typed, each when the text before it is there.
async fn at_a_terminal(plexus: &Plexus, command: &str, steps: &[(&str, &str)]) -> String {
    let waits = steps.iter().map(|(seen, typed)| {
        format!("until grep -q \"{seen}\" seen 2>/dev/null; do sleep 0.02; done; printf '{typed}'; ")
    });
    let typed: String = waits.collect();
    // The terminal stays open until the command has ended.
    let line = format!(
        "cd ~ && rm -f seen; ({typed}) | timeout 60 script -qefc '{command}' seen > /dev/null; cat seen"
    );
    plexus.shell(&line).await.stdout
}

#[tokio::test]
async fn at_a_terminal_each_is_shown_asked_about_and_approved_at_once() {
    let (plexus, _hub) = waiting(&["five", "four", "one", "two"]).await;
    let command = "TERM=xterm plexus upstream approve s";
    let steps = [
        // Neither a yes nor a no: it is asked again.
        ("Approve five (1 of 4)", "perhaps\\n"),
        ("leave it waiting", "n\\n"),
        ("Approve four (2 of 4)", "y\\n"),
        // Ctrl-C.
        ("Approve one (3 of 4)", "\\003"),
    ];
    let seen = at_a_terminal(&plexus, command, &steps).await;
    let places =
        ["five is new", "Approve five", "four is new", "Approve four", "Approved four.", "one is new"];
    let places = places.map(|part| seen.find(part).unwrap_or_else(|| panic!("{part}: {seen}")));
    assert!(places.is_sorted(), "{seen}");
    assert!(seen.contains("Approved: four.") && seen.contains("Still waiting: five, one, two."), "{seen}");
    assert!(seen.contains("  \u{1B}[32m+ description: Is new.\u{1B}[0m"), "{seen:?}");

    // Ctrl-D, and colours that nobody wants.
    let command = "NO_COLOR=1 plexus upstream approve s";
    let seen = at_a_terminal(&plexus, command, &[("Approve five (1 of 3)", "\\004")]).await;
    assert!(seen.contains("Nothing was approved.") && !seen.contains("\u{1B}[32m"), "{seen:?}");
    // A stop, and all the rest, which are shown too.
    let seen = at_a_terminal(&plexus, command, &[("1 of 3", "n\\n"), ("2 of 3", "q\\n")]).await;
    assert!(seen.contains("Nothing was approved.") && !seen.contains("two is new"), "{seen}");
    let seen = at_a_terminal(&plexus, command, &[("1 of 3", "n\\n"), ("2 of 3", "a\\n")]).await;
    assert!(seen.contains("two is new") && !seen.contains("3 of 3"), "{seen}");
    assert!(seen.contains("Approved: one, two.") && seen.contains("Still waiting: five."), "{seen}");
    assert_eq!(plexus.run(&["tools", "call", "mcp__s__two"]).await.ok(), "called two\n");
}

#[tokio::test]
async fn names_choose_what_is_shown_and_a_wrong_one_is_told_from_one_that_need_not_wait() {
    let (plexus, _hub) = waiting(&["save_note", "share_note"]).await;
    let approve = async |words: &[&str]| plexus.run(&[&["upstream", "approve", "s"], words].concat()).await;
    // The hint approves what was asked about, and nothing else.
    let looked = approve(&["mcp__s__save_note"]).await;
    let hint = "`plexus upstream approve s mcp__s__save_note --yes` approves it\n";
    assert!(looked.code == Some(1) && looked.stderr.ends_with(hint), "{looked:?}");
    assert!(!looked.stdout.contains("share_note"), "{looked:?}");
    let json = approve(&["save_note", "--json"]).await.json(0);
    let names: Vec<&str> =
        json["items"].as_array().unwrap().iter().filter_map(|i| i["name"].as_str()).collect();
    assert_eq!(names, ["save_note"], "{json}");

    for (name, words) in [
        ("save_nte", "error: s has no tool save_nte\nhint: did you mean save_note?"),
        ("stya", "did you mean stay?"),
        ("wholly_different", "these wait: save_note, share_note"),
        (
            "mcp__web__get",
            "error: mcp__web__get is not a tool of s, but of web\nhint: plexus upstream approve web mcp__web__get",
        ),
    ] {
        let wrong = approve(&[name, "--yes"]).await;
        assert!(wrong.failed(1).contains(words), "{name}: {wrong:?}");
        assert_eq!(approve(&[name, "--json"]).await.code, Some(1), "{name}");
    }
    for name in ["stay", "mcp__s__stay", "(instructions)"] {
        let done = approve(&[name, "--yes"]).await;
        assert_eq!(
            (done.ok(), done.stderr.as_str()),
            ("", format!("{name} is approved already.\n").as_str())
        );
    }
    let json = approve(&["stay", "--yes", "--json"]).await.json(0);
    assert_eq!(json, json!({ "name": "s", "approved": [], "pending": ["save_note", "share_note"] }));
    let both = approve(&["stay", "save_note", "--yes"]).await;
    assert!(both.ok().ends_with("Approved: save_note.\n"), "{both:?}");
    assert!(both.stderr.contains("stay is approved already.\n"), "{both:?}");

    // What waits of a server that is off is not nothing.
    plexus.run(&["upstream", "disable", "s"]).await.ok();
    for words in [&["--all", "--yes"][..], &["--json"], &[]] {
        let off = approve(words).await;
        let told = off.failed(1);
        assert!(told.contains("s is off: what waits to be approved of it is seen when it is up"), "{told}");
        assert!(told.contains("plexus upstream enable s"), "{told}");
    }
}

#[tokio::test]
async fn a_quarantine_is_told_of_by_name_and_in_few_words() {
    let names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7"];
    let (plexus, hub) = waiting(&names).await;
    let status = plexus.run(&["status"]).await;
    let told = "servers\t1 ready of 1, 7 tools in quarantine: see `plexus upstream list`\n";
    assert!(status.ok().contains(told), "{status:?}");
    let doctor = plexus.run(&["doctor", "--json"]).await.json(0).to_string();
    let told = "s has 7 tools in quarantine: a1 (new), a2 (new), a3 (new), a4 (new), a5 (new), and 2 more\"";
    assert!(doctor.contains(told), "{doctor}");
    for command in ["show", "call"] {
        let unknown = plexus.run(&["tools", command, "mcp__s__a1"]).await;
        let told = unknown.failed(1);
        assert!(
            told.contains("It is in quarantine") && told.contains("`plexus upstream approve s`"),
            "{told}"
        );
    }
    // It is nobody else's.
    let token = hub.token("agent").await.token;
    let seen = plexus.run_with(&["tools", "show", "mcp__s__a1"], &[("PLEXUS_TOKEN", &token)]).await;
    let told = seen.failed(1);
    assert!(!told.contains("quarantine") && told.contains("Unknown tool"), "{told}");

    let other = Scripted::new(plexus.home().join("other.json"));
    other.says(&[json!([tool("odd", "Odd.\u{202E}")])], None);
    add(&plexus, "t", &other).await.ok();
    let list = plexus.run(&["upstream", "list"]).await;
    let told = "Quarantined tools: s, t. `plexus upstream approve NAME` shows what is new or has changed.\n";
    assert!(list.stderr.contains(told), "{list:?}");
}

#[tokio::test]
async fn what_has_changed_is_shown_told_of_everywhere_and_approved_when_it_is_asked_for() {
    let (plexus, hub) = running().await;
    let server = Scripted::new(plexus.home().join("script.json"));
    let says = |tools: Value| server.says(&[tools], None);
    says(json!([tool("say", "Says it."), tool("stay", "Stays."), tool("odd", "Odd.\u{202E}")]));
    let added = add(&plexus, "s", &server).await;
    assert!(added.ok().starts_with("s is up and brings 2 tools:"), "{added:?}");
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

    // With nobody to ask, it is shown and nothing else.
    let looked = plexus.run(&["upstream", "approve", "s"]).await;
    assert_eq!(looked.code, Some(1), "{looked:?}");
    for part in ["say has changed since it was approved by tofu on ", "\n  +   And more.\n", "new is new\n"] {
        assert!(looked.stdout.contains(part), "{part}: {looked:?}");
    }
    assert!(looked.stderr.contains("--all --yes"), "{looked:?}");
    let json = plexus.run(&["upstream", "approve", "s", "--json"]).await.json(0);
    assert_eq!(json["items"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(plexus.run(&["upstream", "approve", "s", "--yes"]).await.code, Some(2));

    let one = plexus.run(&["upstream", "approve", "s", "mcp__s__say", "--yes"]).await;
    assert!(one.ok().ends_with("Approved: say.\n") && one.stderr.contains("Still waiting: new."), "{one:?}");
    assert_eq!(plexus.run(&["tools", "call", "mcp__s__say"]).await.ok(), "called say\n");

    let command = "TERM=dumb plexus upstream approve s";
    let seen = at_a_terminal(&plexus, command, &[("Approve new? \\[y/n/a/q\\]", "y\\n")]).await;
    assert!(seen.contains("Approved: new.") && !seen.contains('\u{1B}'), "{seen:?}");
    let nothing = plexus.run(&["upstream", "approve", "s", "--all", "--yes"]).await;
    assert_eq!(nothing.ok(), "Nothing of s waits to be approved.\n");
    let agent = hub.token("agent").await.token;
    let said = hub.mcp(&agent).tool("mcp__s__new", json!({})).await;
    assert_eq!(said["content"][0]["text"], "called new", "{said}");
}
