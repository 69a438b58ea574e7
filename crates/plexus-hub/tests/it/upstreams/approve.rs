//! Approving tool definitions of servers, over REST.

use plexus_testkit::TestHub;
use plexus_testkit::fixture::{Scripted, program};
use reqwest::Method;
use serde_json::{Value, json};

use super::{in_state, outcome};
use crate::client::{Client, send};

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn approval(pending: &Value) -> Value {
    json!({ "tools": [{ "name": pending["name"], "hash": pending["hash"] }] })
}

#[tokio::test]
async fn admins_approve_pending_tools_until_the_server_is_removed() {
    let hub =
        TestHub::start_with(|config| config.upstreams.commands = vec![program().display().to_string()]).await;
    let (admin, reader) = (Client::admin(&hub), Client::agent(&hub, "reader", &["read:*", "call:*"]).await);
    let server = Scripted::new(hub.data_dir().join("script.json"));
    let add = async || {
        admin.post("/upstreams", &json!({ "name": "s", "server": server.file() })).await.ok();
        in_state(&admin, "s", "ready").await
    };
    server.set_script(&[json!([tool("say", "One."), tool("stay", "Stays.")])], None);
    assert_eq!(add().await["quarantined"], json!([]));
    assert_eq!(admin.get("/upstreams/s/pending").await.ok(), json!({ "items": [], "next": null }));

    server.set_script(&[json!([tool("say", "Two.\u{200B}"), tool("stay", "Stays.")])], None);
    admin.post("/upstreams/s/restart", &json!({})).await.ok();
    let shown = in_state(&admin, "s", "ready").await;
    assert_eq!(
        (&shown["tools"], &shown["quarantined"][0]["name"]),
        (&json!(["mcp__s__stay"]), &json!("say"))
    );
    let pending = admin.get("/upstreams/s/pending").await.ok()["items"][0].clone();
    assert_eq!((&pending["reason"], &pending["approved"]["decided_by"]), (&json!("changed"), &json!("tofu")));
    assert_eq!(pending["flags"][0]["kind"], "hidden_text", "{pending}");
    assert!(pending["diff"].as_array().unwrap().contains(&json!("+ description: Two.<U+200B>")), "{pending}");

    // Non-admins do not see pending tools.
    let visible = reader.get("/upstreams/s").await.ok();
    assert_eq!((&visible["quarantined"], &visible["flagged"]), (&json!([]), &json!([])), "{visible}");
    assert_eq!(reader.get("/upstreams/s/pending").await.refused(403), "forbidden");
    assert_eq!(reader.post("/upstreams/s/approve", &approval(&pending)).await.refused(403), "forbidden");
    assert_eq!(outcome(&hub, "upstream_approve").await, "forbidden");

    // The definition changes again before it is approved.
    server.set_script(&[json!([tool("say", "Three."), tool("stay", "Stays.")])], None);
    admin.post("/upstreams/s/restart", &json!({})).await.ok();
    in_state(&admin, "s", "ready").await;
    let refused = admin.post("/upstreams/s/approve", &approval(&pending)).await;
    assert_eq!(refused.refused(409), "conflict");
    assert_eq!(outcome(&hub, "upstream_approve").await, "conflict");
    assert_eq!(
        admin.post("/upstreams/s/approve", &json!({ "tools": [] })).await.refused(400),
        "invalid_request"
    );
    let wrong = admin.post("/upstreams/s/approve", &json!({ "tools": ["say"] })).await;
    let message = wrong.body["message"].as_str().unwrap_or_default();
    assert!(message.contains("expected an object at line 1") && !message.contains("struct"), "{message}");
    assert_eq!(admin.post("/upstreams/t/approve", &approval(&pending)).await.refused(404), "not_found");
    let pending = admin.get("/upstreams/s/pending").await.ok()["items"][0].clone();
    let done = admin.post("/upstreams/s/approve", &approval(&pending)).await.ok();
    assert_eq!(done, json!({ "name": "s", "approved": ["say"], "pending": [] }));
    assert_eq!(outcome(&hub, "upstream_approve").await, "ok");
    let called = admin.post("/tools/mcp__s__say/call", &json!({ "arguments": {} })).await.ok();
    assert_eq!(called["text"], "called say", "{called}");

    // A server that is added again is treated as new.
    send(admin.request(Method::DELETE, "/upstreams/s")).await.ok();
    server.set_script(&[json!([tool("say", "Four.")])], None);
    let anew = add().await;
    assert_eq!((&anew["tools"], &anew["quarantined"]), (&json!(["mcp__s__say"]), &json!([])), "{anew}");
}
