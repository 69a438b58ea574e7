//! Hints of client commands: sessions by name, an unreachable hub, a refused token.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test]
async fn session_is_found_by_name_key_and_id() {
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
            let output = plexus.run(args).await;
            let event: Value =
                serde_json::from_str(output.ok().lines().next().expect("an event")).expect("JSON");
            assert_eq!(event["session_id"], json!(id), "{args:?}");
        }
        let calls = plexus.run(&["audit", "list", "--session", name, "--json"]).await.json(0);
        assert_eq!(calls["items"].as_array().map(Vec::len), Some(1), "{calls}");
    }
    let unknown = plexus.run(&["sessions", "tail", "my-projec"]).await;
    assert!(unknown.failed(2).contains("hint: `plexus sessions list` shows the ids"), "{unknown:?}");
    // A name with several owners is ambiguous.
    let token = hub.token("codex").await.token;
    let call = ["tools", "call", "todo", "--arg", "action=list", "--session", "my-project"];
    plexus.run_with(&call, &[("PLEXUS_TOKEN", &token)]).await.ok();
    let several = plexus.run(&["sessions", "show", "my-project"]).await;
    let stderr = several.failed(2);
    assert!(stderr.contains(&id) && stderr.contains("agent:codex"), "{stderr}");
}

#[tokio::test]
async fn following_needs_a_reachable_hub_and_waits_for_its_restart() {
    let plexus = crate::plexus();
    let output = plexus.run(&["events", "--follow", "--hub", "http://127.0.0.1:1"]).await;
    let stderr = output.failed(4);
    assert!(stderr.contains("hint: start it with `plexus up`"), "{stderr}");
    assert!(!stderr.contains("come back"), "{stderr}");

    // A hub that was reachable before is waited for.
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
async fn refusal_names_the_token_and_the_missing_scope() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let agent = hub.token("codex").await.token;
    let as_agent = [("PLEXUS_TOKEN", agent.as_str())];
    let local = plexus.run_with(&["audit", "verify"], &as_agent).await;
    for words in ["plexus token create --scope", "the token in PLEXUS_TOKEN; unset it to use the admin token"]
    {
        assert!(local.failed(5).contains(words), "{local:?}");
    }
    // A home without an admin token has no other token to use.
    let other_home = crate::plexus();
    let remote = other_home.run_with(&["audit", "verify", "--hub", &hub.url("")], &as_agent).await;
    let stderr = remote.failed(5);
    assert!(stderr.contains("plexus token create --scope") && stderr.contains("PLEXUS_TOKEN"), "{stderr}");
    assert!(!stderr.contains("unset"), "{stderr}");
}
