//! The token of a connected agent: its scopes, renewal, replacement and revocation.

use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::home;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts the proxy like the agent does; returns its answer to `tools/list`.
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
    tokio::time::timeout(TIMEOUT, answered).await.expect("an answer in time")
}

fn has_todo(answer: &Value) -> bool {
    let tools = answer["result"]["tools"].as_array();
    tools.is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "todo"))
}

/// The agent tokens named `codex`.
async fn codex_tokens(hub: &HubProcess) -> Vec<Value> {
    let mut tokens = hub.list("/api/v1/tokens", |_| false).await;
    tokens.retain(|token| token["kind"] == "agent" && token["name"] == "codex");
    tokens
}

#[tokio::test]
async fn agent_token_may_only_call_tools_unless_scopes_are_given() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    let tokens = codex_tokens(&hub).await;
    let [token] = tokens.as_slice() else { panic!("{tokens:#?}") };
    assert_eq!(token["scopes"], json!(["call:*"]), "{token}");
    let lifetime_hours = |token: &Value| {
        let at =
            |field: &str| token[field].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
        (at("expires_at").as_second() - at("created_at").as_second()) / 3600
    };
    assert_eq!(lifetime_hours(token), 24, "{token}");
    assert!(has_todo(&tools(&plexus).await));
    // The proxy uses the token it was given and creates none with the admin token.
    assert_eq!(codex_tokens(&hub).await.len(), 1);

    // Other options create another token and revoke the first.
    let args = ["connect", "--yes", "codex", "--scope", "call:scratchpad", "--node", "local", "--ttl", "2h"];
    let run_output = plexus.run(&args).await;
    assert!(run_output.ok().contains("call:scratchpad; may use local;"), "{run_output:?}");
    let tokens = codex_tokens(&hub).await;
    let (old, new): (Vec<&Value>, Vec<&Value>) =
        tokens.iter().partition(|token| token["revoked_at"].is_string());
    assert_eq!((old.len(), new.len()), (1, 1), "{tokens:#?}");
    assert_eq!(
        (&new[0]["scopes"], lifetime_hours(new[0])),
        (&json!(["call:scratchpad", "node:local"]), 2),
        "{tokens:#?}"
    );
    let listed = tools(&plexus).await;
    assert!(!has_todo(&listed), "{listed}");

    // Options that are not given keep their values, and a token is replaced only with confirmation.
    let run_output = plexus.run(&["connect", "codex", "--node", "local"]).await;
    assert!(
        run_output.code == Some(2) && run_output.stderr.contains("no terminal to ask on"),
        "{run_output:?}"
    );
    plexus.run(&["connect", "--yes", "codex", "--ttl", "3h"]).await.ok();
    let tokens = codex_tokens(&hub).await;
    let newest = tokens.iter().find(|token| token["revoked_at"].is_null()).expect("a token");
    assert_eq!(
        (&newest["scopes"], lifetime_hours(newest)),
        (&json!(["call:scratchpad", "node:local"]), 3),
        "{newest}"
    );
    let run_output = plexus.run(&["connect", "--yes", "codex", "--node", "nowhere"]).await;
    assert!(run_output.stderr.contains("there is no machine"), "{run_output:?}");

    // Other users cannot read the grant.
    use std::os::unix::fs::PermissionsExt as _;
    let file = plexus.data_dir().join("connect/grants/codex.json");
    assert_eq!(std::fs::metadata(file).expect("the grant").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn expired_agent_token_is_replaced_and_a_revoked_one_is_not() {
    let plexus = home();
    let hub = plexus.up().await;
    plexus.run(&["connect", "--yes", "codex", "--ttl", "1s"]).await.ok();
    let first = codex_tokens(&hub).await[0]["jti"].clone();
    let path = format!("/api/v1/tokens/{}", first.as_str().expect("an id"));
    hub.api_until(&path, |token| token["state"] == "expired").await;
    // As after the machine was off for longer than the lifetime of the token.
    assert!(has_todo(&tools(&plexus).await));
    let tokens = codex_tokens(&hub).await;
    let renewals = |tokens: &[Value]| {
        tokens.iter().filter(|token| token["parent"] == tokens.last().expect("one")["parent"]).count()
    };
    assert!(renewals(&tokens) >= 2, "{tokens:#?}");

    // The user revokes the tokens.
    for token in &tokens {
        let id = token["jti"].as_str().expect("an id");
        plexus.run(&["token", "revoke", id]).await.ok();
    }
    let before = renewals(&codex_tokens(&hub).await);
    let refused = tools(&plexus).await;
    let why = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("revoked") && why.contains("plexus connect codex"), "{refused}");
    assert_eq!(renewals(&codex_tokens(&hub).await), before);
    // Connecting again works.
    plexus.run(&["connect", "--yes", "codex"]).await.ok();
    assert!(has_todo(&tools(&plexus).await));
    plexus.run(&["disconnect", "--yes"]).await.ok();
    let active = |token: &&Value| {
        let at = token["expires_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
        token["revoked_at"].is_null() && at > jiff::Timestamp::now()
    };
    let tokens = codex_tokens(&hub).await;
    assert_eq!(tokens.iter().filter(active).count(), 0, "{tokens:#?}");
    // An agent still using old settings is refused.
    let run_output = plexus.run(&["mcp", "--agent", "codex"]).await;
    assert!(run_output.failed(5).contains("codex was disconnected from the hub"), "{run_output:?}");
    let tokens = codex_tokens(&hub).await;
    assert_eq!(tokens.iter().filter(active).count(), 0, "{tokens:#?}");
}
