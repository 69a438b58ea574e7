//! SIGHUP: what a running hub takes from a changed configuration, and what it does not.

use std::time::Duration;

use plexus_testkit::{HubProcess, Plexus, Signal};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(10);

fn configure(plexus: &Plexus, text: &str) {
    std::fs::create_dir_all(plexus.data_dir()).expect("a folder");
    std::fs::write(plexus.data_dir().join("plexus.toml"), text).expect("a file");
}

/// Sends the signal and waits until the hub has said `words` once more than before.
async fn reload(hub: &HubProcess, words: &str) {
    let before = hub.log().matches(words).count();
    hub.signal(Signal::HUP);
    let told = async {
        while hub.log().matches(words).count() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("no {words:?} in {}", hub.log()));
}

/// The status of a request from the host of this name.
async fn status_for(plexus: &Plexus, hub: &HubProcess, host: &str) -> u16 {
    let request = plexus.http().get(hub.url("/healthz")).header("host", host);
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_reload_takes_effect_for_the_next_request() {
    let plexus = crate::plexus();
    configure(&plexus, "allowed_hosts = [\"one.example\"]\n");
    let hub = plexus.up().await;
    let call = async |text: &str| {
        let request = plexus.http().post(hub.url("/api/v1/tools/todo/call")).bearer_auth(hub.admin_token());
        let body = json!({ "arguments": { "action": "add", "text": text } });
        request.json(&body).send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(status_for(&plexus, &hub, "one.example").await, 200);
    assert_eq!(status_for(&plexus, &hub, "two.example").await, 403);
    assert_eq!(call(&"x".repeat(500)).await, 200);

    configure(&plexus, "allowed_hosts = [\"two.example\"]\n[limits]\nbody_bytes = 400\n");
    reload(&hub, "configuration reloaded").await;

    assert_eq!(status_for(&plexus, &hub, "one.example").await, 403);
    assert_eq!(status_for(&plexus, &hub, "two.example").await, 200);
    assert_eq!(call(&"x".repeat(500)).await, 413);
    assert_eq!(call("short").await, 200);
    assert!(hub.log().contains("limits.body_bytes"), "{}", hub.log());
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn limits_of_calls_are_reloaded_too() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let list = async || {
        let request = plexus.http().post(hub.url("/api/v1/tools/list_tools/call")).bearer_auth(&token);
        let response = request.json(&json!({ "arguments": {} })).send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a body"))
    };
    let (status, whole) = list().await;
    assert_eq!(status, 200, "{whole}");
    let nested = async || {
        let request = plexus.http().post(hub.url("/mcp")).bearer_auth(&token).body("[[[[]]]]");
        let accepted = request.header("accept", "application/json, text/event-stream");
        let response = accepted.header("content-type", "application/json").send().await.expect("an answer");
        response.text().await.expect("a body")
    };
    assert!(!nested().await.contains("nests deeper"), "{}", nested().await);
    configure(&plexus, "[limits]\noutput_bytes = 100\njson_depth = 3\n");
    reload(&hub, "configuration reloaded").await;
    assert!(nested().await.contains("nests deeper than 3"), "{}", nested().await);
    let (_, bounded) = list().await;
    assert_ne!(bounded, whole, "the limit was not taken");
}

#[tokio::test]
async fn what_needs_a_restart_keeps_its_value_and_is_named() {
    let plexus = crate::plexus();
    configure(&plexus, "durability = \"process\"\n");
    let hub = plexus.up().await;
    let secret = "hunter2";
    configure(
        &plexus,
        &format!("durability = \"power\"\ndatabase_url = \"postgres://ann:{secret}@db.example/x\"\n"),
    );
    reload(&hub, "configuration reloaded").await;
    let log = hub.log();
    let told = |key: &str| log.lines().any(|line| line.contains(key) && line.contains("needs a restart"));
    assert!(told("durability") && told("database_url"), "{log}");
    assert!(!log.contains(secret), "{log}");
    assert_eq!(hub.api("/api/v1/status").await["durability"], "process");
}

#[tokio::test]
async fn a_mistake_in_the_file_changes_nothing() {
    let plexus = crate::plexus();
    configure(&plexus, "allowed_hosts = [\"one.example\"]\n");
    let hub = plexus.up().await;
    configure(&plexus, "allowed_hosts = [\"two.example\"]\nlisen = 1\n");
    reload(&hub, "was not reloaded").await;
    assert!(hub.log().contains("plexus.toml:2: unknown key `lisen`"), "{}", hub.log());
    assert_eq!(status_for(&plexus, &hub, "one.example").await, 200);
    assert_eq!(status_for(&plexus, &hub, "two.example").await, 403);
}

#[tokio::test]
async fn the_log_filter_is_reloaded() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let refused = async || {
        let request = plexus.http().get(hub.url("/api/v1/status")).bearer_auth("nonsense");
        assert_eq!(request.send().await.expect("an answer").status(), 401);
    };
    refused().await;
    assert!(!hub.log().contains("DEBUG"), "{}", hub.log());
    configure(&plexus, "[telemetry]\nlog = \"info,plexus_hub=debug\"\n");
    reload(&hub, "configuration reloaded").await;
    refused().await;
    assert!(hub.log().contains("DEBUG"), "{}", hub.log());
}

#[tokio::test]
async fn a_closed_terminal_ends_the_hub() {
    let plexus = crate::plexus();
    let address = plexus.data_dir().join("hub.json");
    let there = async |wanted: bool| {
        let looked = async {
            while address.exists() != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looked)
            .await
            .unwrap_or_else(|_| panic!("hub.json there: {}", !wanted));
    };
    // `script` gives the hub a terminal, which goes when it does.
    let line = "script -qec 'plexus up --listen 127.0.0.1:0' /dev/null";
    let mut terminal = plexus.command("/bin/sh", &["-c", &format!("exec {line}")]);
    let mut terminal = terminal.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    there(true).await;
    terminal.kill().await.expect("it can be killed");
    there(false).await;
}
