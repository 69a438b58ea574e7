//! The MCP client side: connections to single servers, and the hub in front of many. All servers are real
//! processes.

mod calls;
mod leaks;
mod lifecycle;
mod misbehaviour;
pub(crate) mod questions;
mod reloading;
mod script;
mod server;
mod status;
mod stdio;
mod trust;

use std::time::Duration;

use plexus_testkit::{McpClient, TestHub};
use plexus_upstream::{Jitter, Timing};
use serde_json::{Value, json};

/// Short enough for a test, long enough for a busy machine.
pub(crate) fn fast_timing() -> Timing {
    Timing {
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(100),
        // Far more than a test lets happen, unless it is about that.
        crashes: 1_000,
        // A test that writes a file triggers the reload itself; a poll in between would apply the change too
        // early.
        watch: Duration::from_secs(3600),
        jitter: Jitter::fixed(0.5),
        ..Timing::default()
    }
}

/// The same for a hub that notices file changes automatically.
pub(crate) fn fast_polling_timing() -> Timing {
    Timing { watch: Duration::from_millis(50), confirm: Duration::from_millis(50), ..fast_timing() }
}

/// A client with all scopes but those for admins.
pub(crate) async fn agent(hub: &TestHub) -> McpClient {
    hub.mcp(&hub.token("agent", &["call:*"]).await.token)
}

/// Names of a server's tools that a client sees.
pub(crate) async fn tools_of(client: &McpClient, server: &str) -> Vec<String> {
    let list = client.modern("tools/list", json!({})).await.result();
    let names =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with(&format!("mcp__{server}__"))).collect()
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// The result of a call of a tool without arguments, under an idempotency key.
pub(crate) async fn call_with_key(client: &McpClient, tool: &str, key: &str) -> Value {
    let params = json!({ "name": tool, "arguments": {}, "_meta": { "plexus/idempotency-key": key } });
    client.modern("tools/call", params).await.result()
}

/// The metrics of the hub, line by line.
pub(crate) async fn metrics(hub: &TestHub) -> String {
    let request = hub.http().get(hub.url("/metrics")).bearer_auth(hub.admin_token());
    request.send().await.unwrap().text().await.unwrap()
}

/// The process of a fixture server.
pub(crate) async fn process_of(client: &McpClient, server: &str) -> u64 {
    let result = client.tool(&format!("mcp__{server}__describe_call"), json!({})).await;
    result["structuredContent"]["process"].as_u64().unwrap_or_else(|| panic!("no process: {result}"))
}

/// Whether a process with this id exists, possibly as a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Sends a signal to a process, by name.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill is there").success(), "{name} to {pid}");
}
