//! User-defined tools over REST: who may enable and test them, and from where.

use std::os::unix::fs::PermissionsExt as _;

use plexus_testkit::{TestHub, until};
use reqwest::Method;
use serde_json::json;

use crate::client::{Client, send};

/// A tool that returns its arguments.
fn write_tool(hub: &TestHub, name: &str) {
    let dir = hub.data_dir().join("tools.d").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let manifest = json!({
        "description": "Says back what it was given.",
        "command": "run.sh",
        "input_schema": { "type": "object", "properties": { "n": { "type": "integer" } } },
    });
    let script = "#!/bin/sh\nread -r arguments\nprintf '{\"got\": %s}' \"$arguments\"\n";
    for (file, text, mode) in [("run.sh", script, 0o700), ("tool.json", &manifest.to_string(), 0o600)] {
        std::fs::write(dir.join(file), text).unwrap();
        std::fs::set_permissions(dir.join(file), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for path in [&dir, dir.parent().unwrap()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn tool_can_be_tested_enabled_called_and_disabled() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    write_tool(&hub, "say_back");
    // The list reads the folder immediately.
    let listed = admin.get("/tools/-/defined").await.ok()["items"][0].clone();
    assert_eq!((&listed["name"], &listed["state"]), (&json!("say_back"), &json!("disabled")), "{listed}");
    assert_eq!(listed["problems"], json!([]), "{listed}");
    let arguments = json!({ "arguments": { "n": 5 } });
    assert_eq!(admin.post("/tools/say_back/call", &arguments).await.refused(404), "unknown_tool");
    let trial = admin.post("/tools/say_back/test", &arguments).await.ok();
    assert_eq!((&trial["success"], &trial["exit_code"]), (&json!(true), &json!(0)), "{trial}");
    assert_eq!(trial["structured"], json!({ "got": { "n": 5 } }), "{trial}");
    let wrong = admin.post("/tools/say_back/test", &json!({ "arguments": { "n": "x" } })).await.ok();
    assert_eq!((&wrong["ran"], &wrong["problems"][0]["path"]), (&json!(false), &json!("/n")), "{wrong}");
    // Testing it has not enabled it.
    assert_eq!(admin.post("/tools/say_back/call", &arguments).await.refused(404), "unknown_tool");

    let on = admin.post("/tools/say_back/enable", &json!({})).await.ok();
    assert_eq!((&on["state"], &on["enabled_by"]), (&json!("enabled"), &json!("command")), "{on}");
    let agent = hub.token("agent", &["call:say_back"]).await.token;
    let result = hub.mcp(&agent).tool("say_back", json!({ "n": 7 })).await;
    assert_eq!(result["structuredContent"], json!({ "got": { "n": 7 } }), "{result}");
    let shown = admin.get("/tools/say_back").await.ok();
    assert_eq!((&shown["placement"], &shown["scope"]), (&json!("hub"), &json!("call:say_back")), "{shown}");
    admin.post("/tools/say_back/disable", &json!({})).await.ok();
    assert_eq!(admin.post("/tools/say_back/call", &arguments).await.refused(404), "unknown_tool");
    for operation in ["tool_enable", "tool_disable", "tool_test"] {
        assert_eq!(hub.outcome_of(operation).await, "ok", "{operation}");
    }
}

#[tokio::test]
async fn broken_tool_is_counted_and_removed_tool_stays_disabled() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    write_tool(&hub, "say_back");
    admin.post("/tools/say_back/enable", &json!({})).await.ok();
    assert_eq!(admin.get("/status").await.ok()["broken_tools"], 0);
    let dir = hub.data_dir().join("tools.d/say_back");
    std::fs::write(dir.join("tool.json"), "{").unwrap();
    // The hub notices the change without a request.
    until("the tool is counted as broken", async || admin.get("/status").await.ok()["broken_tools"] == 1)
        .await;
    let listed = admin.get("/tools/-/defined").await.ok()["items"][0].clone();
    assert_eq!((&listed["state"], &listed["enabled_by"]), (&json!("invalid"), &json!("command")), "{listed}");
    let unknown = admin.get("/tools/say_back").await;
    assert_eq!(unknown.refused(404), "unknown_tool");
    assert!(unknown.body["hint"].as_str().unwrap().contains("It is a user-defined tool that is wrong: "));
    std::fs::remove_dir_all(&dir).unwrap();
    let state = hub.data_dir().join("tools-enabled.json");
    until("the removed tool is disabled", async || {
        !std::fs::read_to_string(&state).unwrap().contains("say_back")
    })
    .await;
    write_tool(&hub, "say_back");
    let listed = admin.get("/tools/-/defined").await.ok()["items"][0].clone();
    assert_eq!((&listed["state"], &listed["enabled_by"]), (&json!("disabled"), &json!(null)), "{listed}");
}

#[tokio::test]
async fn enabling_and_testing_require_a_local_request() {
    let hub = TestHub::start().await;
    let admin = Client::admin(&hub);
    write_tool(&hub, "say_back");
    for path in ["/tools/say_back/enable", "/tools/say_back/test"] {
        // As forwarded by a proxy on this machine.
        let request =
            admin.request(Method::POST, path).header("x-forwarded-for", "203.0.113.9").json(&json!({}));
        let refused = send(request).await;
        assert_eq!(refused.refused(403), "forbidden", "{path}");
        let message = refused.body["message"].as_str().unwrap();
        assert!(
            message.contains("only on the hub's own machine, and this request comes through a proxy"),
            "{message}"
        );
        assert_eq!(refused.body["details"]["missing"], json!(["loopback"]));
    }
    assert_eq!(hub.outcome_of("tool_enable").await, "forbidden");
    assert_eq!(admin.post("/tools/nothing/enable", &json!({})).await.refused(404), "not_found");
}
