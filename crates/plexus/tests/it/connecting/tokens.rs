//! The token of a connected agent: what it may do, that it is renewed and made anew, and that it stays revoked.

use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::home;

const PATIENCE: Duration = Duration::from_secs(20);

/// The proxy as the agent starts it, asked for its tools; the answer, or the error.
async fn tools(plexus: &Plexus) -> Value {
    let mut command = plexus.command(env!("CARGO_BIN_EXE_plexus"), &["mcp", "--agent", "codex"]);
    let mut proxy = command.stdin(std::process::Stdio::piped()).spawn().expect("the proxy starts");
    let mut input = proxy.stdin.take().expect("its input");
    let mut output = BufReader::new(proxy.stdout.take().expect("its output")).lines();
    let greeting = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }
    });
    let messages = [
        greeting,
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ];
    for message in messages {
        input.write_all(format!("{message}\n").as_bytes()).await.expect("a message");
    }
    let answered = async {
        while let Some(line) = output.next_line().await.expect("its output") {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == 2 {
                return message;
            }
        }
        panic!("no answer");
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer in time")
}

fn has_todo(answer: &Value) -> bool {
    let tools = answer["result"]["tools"].as_array();
    tools.is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "todo"))
}

async fn of_codex(hub: &HubProcess) -> Vec<Value> {
    let mut tokens = hub.list("/api/v1/tokens", |_| false).await;
    tokens.retain(|token| token["kind"] == "agent" && token["name"] == "codex");
    tokens
}

#[tokio::test]
async fn it_may_call_tools_and_nothing_else_unless_more_is_said() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let tokens = of_codex(&hub).await;
    let [token] = tokens.as_slice() else { panic!("{tokens:#?}") };
    assert_eq!(token["scopes"], json!(["call:*"]), "{token}");
    let life = |token: &Value| {
        let at =
            |field: &str| token[field].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
        (at("expires_at").as_second() - at("created_at").as_second()) / 3600
    };
    assert_eq!(life(token), 24, "{token}");
    assert!(has_todo(&tools(&plexus).await));
    // The proxy shows the token that it was given, and makes none with the admin's.
    assert_eq!(of_codex(&hub).await.len(), 1);

    // Other wishes are another token, and the end of the first.
    let args = ["connect", "--yes", "codex", "--scope", "call:scratchpad", "--node", "local", "--ttl", "2h"];
    let ran = plexus.run(&args).await;
    assert!(ran.ok().contains("call:scratchpad; may use local;"), "{ran:?}");
    let tokens = of_codex(&hub).await;
    let (old, new): (Vec<&Value>, Vec<&Value>) =
        tokens.iter().partition(|token| token["revoked_at"].is_string());
    assert_eq!((old.len(), new.len()), (1, 1), "{tokens:#?}");
    assert_eq!(
        (&new[0]["scopes"], life(new[0])),
        (&json!(["call:scratchpad", "node:local"]), 2),
        "{tokens:#?}"
    );
    let listed = tools(&plexus).await;
    assert!(!has_todo(&listed), "{listed}");

    // What is not said stays as it was, and a token is not changed without a word.
    let ran = plexus.run(&["connect", "codex", "--node", "local"]).await;
    assert!(ran.code == Some(2) && ran.stderr.contains("no terminal to ask on"), "{ran:?}");
    plexus.run(&["connect", "--yes", "codex", "--ttl", "3h"]).await.ok();
    let tokens = of_codex(&hub).await;
    let newest = tokens.iter().find(|token| token["revoked_at"].is_null()).expect("a token");
    assert_eq!((&newest["scopes"], life(newest)), (&json!(["call:scratchpad", "node:local"]), 3), "{newest}");
    let ran = plexus.run(&["connect", "--yes", "codex", "--node", "nowhere"]).await;
    assert!(ran.stderr.contains("there is no machine"), "{ran:?}");

    // Whoever may not read the folder of the user has nothing of it.
    use std::os::unix::fs::PermissionsExt as _;
    let file = plexus.data_dir().join("connect/grants/codex.json");
    assert_eq!(std::fs::metadata(file).expect("the grant").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn it_is_made_anew_when_its_time_is_over_and_stays_revoked_when_it_was() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex", "--ttl", "1s"]).await.ok();
    let begun = Instant::now();
    let first = of_codex(&hub).await[0]["jti"].clone();
    let over = async {
        loop {
            let token = hub.api(&format!("/api/v1/tokens/{}", first.as_str().expect("an id"))).await;
            if token["state"] == "expired" {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{token}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    over.await;
    // A machine that was off for longer than the token lives.
    assert!(has_todo(&tools(&plexus).await));
    let tokens = of_codex(&hub).await;
    let made = |tokens: &[Value]| {
        tokens.iter().filter(|token| token["parent"] == tokens.last().expect("one")["parent"]).count()
    };
    assert!(made(&tokens) >= 2, "{tokens:#?}");

    // A person has had enough of it.
    for token in &tokens {
        let id = token["jti"].as_str().expect("an id");
        plexus.run(&["token", "revoke", id]).await.ok();
    }
    let before = made(&of_codex(&hub).await);
    let refused = tools(&plexus).await;
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("revoked") && why.contains("plexus connect codex"), "{refused}");
    assert_eq!(made(&of_codex(&hub).await), before);
    // And has changed their mind.
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    assert!(has_todo(&tools(&plexus).await));
    plexus.run(&["disconnect", "--yes"]).await.ok();
    let alive = |token: &&Value| {
        let at = token["expires_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
        token["revoked_at"].is_null() && at > jiff::Timestamp::now()
    };
    let tokens = of_codex(&hub).await;
    assert_eq!(tokens.iter().filter(alive).count(), 0, "{tokens:#?}");
    // An agent that has read its settings before starts it again, and is given nothing.
    let ran = plexus.run(&["mcp", "--agent", "codex"]).await;
    assert!(ran.failed(5).contains("codex was disconnected from the hub"), "{ran:?}");
    let tokens = of_codex(&hub).await;
    assert_eq!(tokens.iter().filter(alive).count(), 0, "{tokens:#?}");
}
