//! `plexus upstream approve`: seen, asked about, and listed.

use plexus_testkit::fixture::Scripted;
use serde_json::{Value, json};

use super::running;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn what_has_changed_is_shown_told_of_everywhere_and_approved_when_it_is_asked_for() {
    let (plexus, hub) = running().await;
    let server = Scripted::new(plexus.home().join("script.json"));
    let says = |tools: Value| server.says(&[tools], None);
    says(json!([tool("say", "Says it."), tool("stay", "Stays."), tool("odd", "Odd.\u{202E}")]));
    let file = server.file();
    let words: Vec<&str> =
        file["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let program = file["command"].as_str().unwrap();
    let added = plexus.run(&[&["upstream", "add", "s", "--", program][..], &words].concat()).await;
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
    assert!(doctor.contains("s has tools in quarantine: new (new), say (changed)"), "{doctor}");
    let called = plexus.run(&["tools", "call", "mcp__s__say"]).await;
    assert!(called.failed(1).contains("plexus upstream approve"), "{called:?}");

    // With nobody to ask, it is shown and nothing else.
    let looked = plexus.run(&["upstream", "approve", "s"]).await;
    assert_eq!(looked.code, Some(1), "{looked:?}");
    for part in ["say has changed since it was approved by tofu on ", "\n  +   And more.\n", "new is new\n"] {
        assert!(looked.stdout.contains(part), "{part}: {looked:?}");
    }
    assert!(looked.stderr.contains("--all --yes"), "{looked:?}");
    let json = plexus.run(&["upstream", "approve", "s", "--json"]).await.json(0);
    assert_eq!(json["items"].as_array().map(Vec::len), Some(2), "{json}");
    let missing = plexus.run(&["upstream", "approve", "s", "stay"]).await;
    assert!(missing.failed(1).contains("stay does not wait"), "{missing:?}");
    assert_eq!(plexus.run(&["upstream", "approve", "s", "--yes"]).await.code, Some(2));

    let one = plexus.run(&["upstream", "approve", "s", "mcp__s__say", "--yes"]).await;
    assert!(one.ok().ends_with("Approved: say.\n") && one.stderr.contains("Still waiting: new."), "{one:?}");
    assert_eq!(plexus.run(&["tools", "call", "mcp__s__say"]).await.ok(), "called say\n");

    // On a terminal it is asked, and only a yes is one.
    let terminal = async |answer: &str| {
        let line = format!("echo {answer} | script -qec 'TERM=dumb plexus upstream approve s' /dev/null");
        plexus.shell(&line).await.stdout
    };
    let refused = terminal("n").await;
    assert!(refused.contains("Approve new? [y/N]") && refused.contains("Nothing was approved."), "{refused}");
    let approved = terminal("y").await;
    assert!(approved.contains("Approved: new."), "{approved}");
    let nothing = plexus.run(&["upstream", "approve", "s", "--all", "--yes"]).await;
    assert_eq!(nothing.ok(), "Nothing of s waits to be approved.\n");
    let agent = hub.token("agent").await.token;
    let said = hub.mcp(&agent).tool("mcp__s__new", json!({})).await;
    assert_eq!(said["content"][0]["text"], "called new", "{said}");
}
