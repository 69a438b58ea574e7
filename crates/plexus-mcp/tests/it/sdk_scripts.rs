//! Tests with clients of SDKs: a script connects and reports in lines of JSON.

use plexus_testkit::{Pinned, Script, TestHub, TestProxy, sdk_script};
use serde_json::{Value, json};

use crate::tools::{idle, in_time};

/// The tools that a new hub lists.
pub(crate) const TOOLS: [&str; 8] = [
    "list_profiles",
    "list_tools",
    "mcp_status",
    "scratchpad",
    "session_info",
    "todo",
    "tool_call",
    "tool_search",
];

/// Checks the report that every script sends.
pub(crate) fn check(report: &Value, version: &str) {
    assert_eq!(report["version"], version, "{report}");
    assert_eq!(report["tools"], json!(TOOLS), "{report}");
    // Structured content exists since this revision.
    let structured = (version >= "2025-06-18").then_some("milk");
    assert_eq!(report["added"]["items"][0]["text"].as_str(), structured, "{report}");
    assert_eq!(report["listed"], report["added"], "{report}");
    assert_eq!(report["text"], "[ ] 1. milk", "{report}");
    assert_eq!(report["failed"]["is_error"], true, "{report}");
    assert!(report["failed"]["text"].as_str().unwrap().contains("there is no to-do 99"), "{report}");
    assert_eq!(report["unknown_tool"], -32602, "{report}");
}

/// Runs a script, and adds a tool while it listens for changes.
pub(crate) async fn run(sdk: Option<Pinned>, script: &str, mode: &str, version: &str) {
    let Some(sdk) = sdk else { return };
    let hub = TestHub::start().await;
    let token = hub.token("script", &["call:*"]).await.token;
    report(&hub, sdk.script(&sdk_script(script), &[&hub.url("/mcp"), mode], &token), version).await;
    // The client has ended its session.
    assert_eq!(hub.api("/api/v1/status").await["mcp_sessions"], 0);
}

async fn report(hub: &TestHub, mut script: Script, version: &str) {
    check(&script.line().await, version);
    assert_eq!(script.line().await, json!({ "listening": true }));
    hub.registry().add([idle("added_later")]);
    let line = script.line().await;
    assert_eq!(line["heard"], "tools_list_changed", "{line}");
    assert!(line["tools"].as_array().unwrap().contains(&json!("added_later")), "{line}");
    script.end().await;
}

/// Runs a script through a proxy. Then stops the hub and lets the script make a write, which the proxy queues.
pub(crate) async fn run_proxied(sdk: Option<Pinned>, script: &str, mode: &str, version: &str) {
    let Some(sdk) = sdk else { return };
    let hub = TestHub::start().await;
    let token = hub.token("script", &["call:*"]).await.token;
    let proxy = TestProxy::start(&hub.url(""), &token).await;
    let start = |more: &[&str]| {
        sdk.script(&sdk_script(script), &[&[proxy.url(), mode], more].concat(), proxy.secret())
    };
    report(&hub, start(&[]), version).await;
    in_time("the end of the session", async {
        while hub.api("/api/v1/status").await["mcp_sessions"] != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    hub.stop().await;
    let write = json!({ "action": "add", "text": "later" }).to_string();
    let mut script = start(&["todo", &write]);
    let report = script.line().await;
    assert!(report["tools"].as_array().unwrap().contains(&json!("todo")), "the last known list: {report}");
    // The SDK has validated it against the tool's schema.
    let result = &report["result"];
    assert_eq!(result["structuredContent"]["queued"], true, "{report}");
    assert_eq!(result["structuredContent"]["tool"], "todo", "{report}");
    script.end().await;
}

/// Runs a script with an invalid token, which must report the refusal and exit normally.
pub(crate) async fn assert_refused(sdk: Option<Pinned>, script: &str, mode: &str) {
    let Some(sdk) = sdk else { return };
    let hub = TestHub::start().await;
    let mut script = sdk.script(&sdk_script(script), &[&hub.url("/mcp"), mode], "nonsense");
    let refused = script.line().await;
    assert!(refused["refused"].as_str().is_some_and(|why| !why.is_empty()), "{refused}");
    script.end().await;
}
