//! `SIGHUP`: which changes of the configuration a running hub applies.

use plexus_testkit::{HubProcess, Plexus, Signal, until};
use serde_json::json;

use crate::pty::Terminal;

fn configure(plexus: &Plexus, text: &str) {
    std::fs::create_dir_all(plexus.data_dir()).expect("a folder");
    std::fs::write(plexus.data_dir().join("plexus.toml"), text).expect("a file");
}

/// Sends the signal and waits until the hub logs `words` once more than before.
async fn reload(hub: &HubProcess, words: &str) {
    let before = hub.log().matches(words).count();
    hub.signal(Signal::HUP);
    hub.logged(words, before + 1).await;
}

/// The status of a request with this `Host`.
async fn status_for(plexus: &Plexus, hub: &HubProcess, host: &str) -> u16 {
    let request = plexus.http().get(hub.url("/healthz")).header("host", host);
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn reload_applies_to_the_next_request() {
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
async fn call_limits_are_reloaded() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let list = async || {
        let request = plexus.http().post(hub.url("/api/v1/tools/list_tools/call")).bearer_auth(&token);
        let response = request.json(&json!({ "arguments": {} })).send().await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a body"))
    };
    let (status, unlimited) = list().await;
    assert_eq!(status, 200, "{unlimited}");
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
    assert_ne!(bounded, unlimited, "the limit was not applied");
}

#[tokio::test]
async fn settings_that_need_a_restart_keep_their_value_and_are_logged() {
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
    let named = |key: &str| {
        log.lines().any(|line| line.contains(key) && line.contains("changes only after a restart"))
    };
    assert!(named("durability") && named("database_url"), "{log}");
    assert!(!log.contains(secret), "{log}");
    assert_eq!(hub.api("/api/v1/status").await["durability"], "process");
}

#[tokio::test]
async fn invalid_file_changes_nothing() {
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
async fn log_filter_is_reloaded() {
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
async fn closed_terminal_stops_the_hub() {
    let plexus = crate::plexus();
    let address_file = plexus.data_dir().join("hub.json");
    let terminal = Terminal::line(&plexus, "exec plexus up --listen 127.0.0.1:0");
    until("the hub is ready", async || address_file.exists()).await;
    let mut hub = terminal.hang_up();
    until("the hub has stopped", async || !address_file.exists()).await;
    hub.wait().await.expect("a status");
}
