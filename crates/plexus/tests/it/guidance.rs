//! What helps a person along: sessions by their names, a hub that is not there, a token that is refused.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test]
async fn a_session_is_found_by_its_name_and_its_key() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    for name in ["my-project", "my-project-2"] {
        plexus.run(&["tools", "call", "todo", "--arg", "action=list", "--session", name]).await.ok();
    }
    let list = plexus.run(&["sessions", "list", "--json"]).await.json(0);
    let session =
        list["items"].as_array().expect("items").iter().find(|session| session["key"] == "named:my-project");
    let id = session.expect("the session")["id"].as_str().expect("an id").to_owned();
    for name in ["my-project", "named:my-project", id.as_str()] {
        let shown = plexus.run(&["sessions", "show", name, "--json"]).await.json(0);
        assert_eq!(shown["id"], json!(id), "{name}");
        for args in [&["sessions", "tail", name, "--json"][..], &["events", "--session", name, "--json"]] {
            let ran = plexus.run(args).await;
            let event: Value =
                serde_json::from_str(ran.ok().lines().next().expect("an event")).expect("JSON");
            assert_eq!(event["session_id"], json!(id), "{args:?}");
        }
        let calls = plexus.run(&["audit", "list", "--session", name, "--json"]).await.json(0);
        assert_eq!(calls["items"].as_array().map(Vec::len), Some(1), "{calls}");
    }
    let unknown = plexus.run(&["sessions", "tail", "my-projec"]).await;
    assert!(unknown.failed(2).contains("hint: `plexus sessions list` shows the ids"), "{unknown:?}");
    // A name that several owners have is not guessed.
    let token = hub.token("codex").await.token;
    let call = ["tools", "call", "todo", "--arg", "action=list", "--session", "my-project"];
    plexus.run_with(&call, &[("PLEXUS_TOKEN", &token)]).await.ok();
    let several = plexus.run(&["sessions", "show", "my-project"]).await;
    let said = several.failed(2);
    assert!(said.contains(&id) && said.contains("agent:codex"), "{said}");
}

#[tokio::test]
async fn following_begins_with_a_hub_that_is_there() {
    let plexus = crate::plexus();
    let ran = plexus.run(&["events", "--follow", "--hub", "http://127.0.0.1:1"]).await;
    let said = ran.failed(4);
    assert!(said.contains("hint: start it with `plexus up`"), "{said}");
    assert!(!said.contains("come back"), "{said}");

    // One that was there is waited for.
    let hub = plexus.up().await;
    hub.mcp(&hub.token("codex").await.token).tool("todo", json!({ "action": "list" })).await;
    let mut follow = plexus.spawn(&["events", "--follow", "-n", "1"]);
    let mut events = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut notes = BufReader::new(follow.stderr.take().expect("its remarks")).lines();
    let first = tokio::time::timeout(Duration::from_secs(15), events.next_line()).await;
    first.expect("an event in time").expect("its output").expect("an event");
    let url = hub.url("");
    hub.kill().await;
    let note = tokio::time::timeout(Duration::from_secs(15), notes.next_line()).await;
    let note = note.expect("a remark in time").expect("its remarks").expect("a remark");
    assert_eq!(note, format!("the connection to the hub at {url} broke; waiting for it to come back"));
}

#[tokio::test]
async fn a_refusal_says_whose_token_it_was_and_what_would_do() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let agent = hub.token("codex").await.token;
    let as_agent = [("PLEXUS_TOKEN", agent.as_str())];
    let here = plexus.run_with(&["audit", "verify"], &as_agent).await;
    for words in ["plexus token create --scope", "the token in PLEXUS_TOKEN; unset it to use the admin token"]
    {
        assert!(here.failed(5).contains(words), "{here:?}");
    }
    // From a home without an admin token there is nothing to fall back to.
    let elsewhere = crate::plexus();
    let there = elsewhere.run_with(&["audit", "verify", "--hub", &hub.url("")], &as_agent).await;
    let said = there.failed(5);
    assert!(said.contains("plexus token create --scope") && said.contains("PLEXUS_TOKEN"), "{said}");
    assert!(!said.contains("unset"), "{said}");
}
