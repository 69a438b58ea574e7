//! The hub's log: what it contains, and secrets that it must not contain.

use std::time::Duration;

use plexus_testkit::HubProcess;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Calls `todo` with invalid arguments and a request id of the client. Returns the ids of the request and the call.
async fn failing_call(plexus: &plexus_testkit::Plexus, hub: &HubProcess, token: &str) -> (String, String) {
    let request = plexus
        .http()
        .post(hub.url("/api/v1/tools/todo/call?secret=hunter2"))
        .bearer_auth(token)
        .header("x-request-id", "client-7")
        .json(&json!({ "arguments": { "action": "no such action" } }));
    let response = request.send().await.expect("an answer");
    let request_id = response.headers()["x-request-id"].to_str().expect("an id").to_owned();
    let error: Value = response.json().await.expect("JSON");
    assert_eq!((&error["code"], &error["request_id"]), (&json!("invalid_arguments"), &json!(request_id)));
    let audit = hub.api("/api/v1/audit?limit=1&tool=todo").await;
    (request_id, audit["items"][0]["call_id"].as_str().expect("a call").to_owned())
}

#[tokio::test]
async fn json_log_lines_are_objects_with_the_ids_of_request_and_call() {
    let plexus =
        crate::plexus().with("PLEXUS_LOG", "debug".to_owned()).with("PLEXUS_LOG_FORMAT", "json".to_owned());
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let (request_id, call_id) = failing_call(&plexus, &hub, &token).await;
    let log = hub.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}")))
        .collect();
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "no {field} in {line}");
        }
    }
    let of_call: Vec<&Value> = lines.iter().filter(|line| line["call_id"] == json!(call_id)).collect();
    let ended = of_call.iter().find(|line| line["message"] == "call ended").expect("the end of the call");
    for (field, expected) in [
        ("request_id", json!(request_id)),
        ("client_request_id", json!("client-7")),
        ("method", json!("POST")),
        ("route", json!("/api/v1/tools/{name}/call")),
        ("subject", json!("agent:codex")),
        ("tool", json!("todo")),
        ("via", json!("rest")),
        ("outcome", json!("invalid_arguments")),
    ] {
        assert_eq!(ended[field], expected, "{field} in {ended}");
    }
    assert!(ended["elapsed_ms"].is_f64() && ended["session_id"].is_string(), "{ended}");
    // The lines of the request have its fields, and none of the call.
    let of_request = |message: &str| {
        let mut found = lines.iter().filter(|line| line["request_id"] == json!(request_id));
        found.find(|line| line["message"] == message).unwrap_or_else(|| panic!("no {message} in {log}"))
    };
    assert_eq!(
        (&of_request("request")["status"], &of_request("refused")["code"]),
        (&json!(400), &json!("invalid_arguments"))
    );
    assert_eq!(of_request("request")["call_id"], Value::Null);
    for secret in [token.as_str(), "eyJ", "hunter2"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn default_log_has_start_and_end_of_the_hub() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let address = hub.url("").replace("http://", "");
    assert!(hub.terminate().await.success());
    let log = std::fs::read_to_string(plexus.home().join("hub.log")).expect("the log");
    let ready =
        log.lines().find(|line| line.contains("ready")).unwrap_or_else(|| panic!("no start in {log}"));
    for words in ["INFO", &address, env!("CARGO_PKG_VERSION"), "sqlite"] {
        assert!(ready.contains(words), "no {words} in {ready}");
    }
    assert!(log.lines().any(|line| line.ends_with("stopped")), "{log}");
}

#[tokio::test]
async fn text_log_lines_have_the_ids_of_request_and_call() {
    let plexus = crate::plexus().with("PLEXUS_LOG", "plexus=debug".to_owned());
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let (request_id, call_id) = failing_call(&plexus, &hub, &token).await;
    let log = hub.log();
    let ended = log.lines().find(|line| line.contains("call ended")).expect("the end of the call");
    assert!(ended.contains(&request_id) && ended.contains(&call_id), "{ended}");
}

#[tokio::test]
async fn successful_calls_are_not_in_the_default_log() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await.token;
    let before = hub.log().lines().count();
    for _ in 0..20 {
        hub.mcp(&token).tool("todo", json!({ "action": "list" })).await;
    }
    let log = hub.log();
    assert_eq!(log.lines().count(), before, "{log}");
}

#[tokio::test]
async fn flag_of_a_node_overrides_the_variable_of_the_log_format() {
    let plexus = crate::plexus();
    // A port without a hub, so that the node logs its failed attempts to join.
    let variables = [("PLEXUS_NODE_KEY", "k"), ("PLEXUS_LOG_FORMAT", "text")];
    let hub = ["--hub", "http://127.0.0.1:1", "node", "run", "--name", "nas", "--log-format", "json"];
    let mut command = plexus.command(env!("CARGO_BIN_EXE_plexus"), &hub);
    let mut node = command.envs(variables).spawn().expect("the program starts");
    let mut log = BufReader::new(node.stderr.take().expect("its log")).lines();
    let line = tokio::time::timeout(Duration::from_secs(60), log.next_line()).await.expect("a line in time");
    let line = line.expect("a line").expect("a line before its end");
    let entry: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}"));
    assert!(entry["message"].as_str().expect("text").starts_with("cannot join"), "{entry}");
}
