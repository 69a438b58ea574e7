//! The context of a token, and waiting for its changes.

use std::time::Duration;

use plexus_testkit::TestHub;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::TIMEOUT;
use super::scripted_node::{ALL_TRANSPORTS, EnrolledNode};

async fn get(hub: &TestHub, token: &str, query: &str, version: Option<&str>) -> Response {
    let mut request = hub.http().get(hub.url(&format!("/api/v1/context{query}"))).bearer_auth(token);
    if let Some(version) = version {
        request = request.header("if-none-match", format!("\"{version}\""));
    }
    tokio::time::timeout(TIMEOUT, request.send()).await.expect("an answer in time").expect("an answer")
}

async fn context(hub: &TestHub, token: &str) -> Value {
    let answer = get(hub, token, "", None).await;
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let context: Value = answer.json().await.unwrap();
    assert_eq!(tag, format!("{}", context["version"]), "the entity tag is the version: {context}");
    context
}

/// Waits for a version other than this one; returns the answer.
fn spawn_wait(hub: &TestHub, token: &str, version: &Value) -> JoinSet<(u16, Value)> {
    let request = hub.http().get(hub.url("/api/v1/context?wait=60")).bearer_auth(token);
    let request = request.header("if-none-match", version.to_string());
    let mut waiting = JoinSet::new();
    waiting.spawn(async move {
        match request.send().await {
            Ok(answer) => (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null)),
            Err(error) => (0, Value::String(error.to_string())),
        }
    });
    waiting
}

async fn answer_of(waiting: &mut JoinSet<(u16, Value)>) -> (u16, Value) {
    let answer = tokio::time::timeout(TIMEOUT, waiting.join_next()).await.expect("an answer in time");
    answer.expect("one request").unwrap()
}

async fn expect_change(mut waiting: JoinSet<(u16, Value)>, before: &Value) -> Value {
    let (status, now) = answer_of(&mut waiting).await;
    assert_eq!(status, 200, "{now}");
    assert_ne!(now["version"], before["version"]);
    now
}

fn node(context: &Value, name: &str) -> Option<bool> {
    let nodes = context["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).map(|node| node["online"].as_bool().unwrap())
}

#[tokio::test]
async fn context_wait_reports_changes_of_usable_nodes() {
    for transport in ALL_TRANSPORTS {
        let hub = TestHub::start().await;
        let token = hub.token("agent", &["call:*", "node:nas"]).await.token;
        let without_nodes = hub.token("nowhere", &["call:todo"]).await.token;
        let (alone, blind) = (context(&hub, &token).await, context(&hub, &without_nodes).await);
        assert_eq!((&alone["nodes"], &blind["nodes"]), (&json!([]), &json!([])), "no usable nodes");

        let nas = EnrolledNode::new(&hub, "nas").await;
        let joined = expect_change(spawn_wait(&hub, &token, &alone["version"]), &alone).await;
        assert_eq!(node(&joined, "nas"), Some(false), "{joined}");
        let (mut end, _) = nas.link(&hub, transport).await;
        end.answer_probe().await;
        let linked = expect_change(spawn_wait(&hub, &token, &joined["version"]), &joined).await;
        assert_eq!(node(&linked, "nas"), Some(true), "{linked}");
        assert_eq!(context(&hub, &without_nodes).await, blind, "nothing that it may see has changed");

        // A restart alone is not a change: a machine that was linked is expected to reconnect.
        let hub = hub.restart().await;
        assert_eq!(context(&hub, &token).await, linked);
        let waiting = spawn_wait(&hub, &token, &linked["version"]);
        let path = format!("/api/v1/nodes/{}", nas.id);
        let removed = hub.http().delete(hub.url(&path)).bearer_auth(hub.admin_token()).send().await.unwrap();
        assert_eq!(removed.status(), 200);
        assert_eq!(node(&expect_change(waiting, &linked).await, "nas"), None);
    }
}

#[tokio::test]
async fn context_wait_reports_changes_of_the_profiles_tools_only() {
    let hub = TestHub::start().await;
    let profile = |tools: Value| {
        let folder = hub.data_dir().join("profiles").join("narrow");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.json"), json!({ "enabled_tools": tools }).to_string()).unwrap();
    };
    profile(json!(["todo"]));
    hub.reload_profiles();
    let params = json!({ "kind": "agent", "name": "narrow", "profile": "narrow" });
    let request = hub.http().post(hub.url("/api/v1/tokens")).bearer_auth(hub.admin_token()).json(&params);
    let made: Value = request.send().await.unwrap().json().await.unwrap();
    let token = made["token"].as_str().unwrap();
    let before = context(&hub, token).await;
    assert_eq!(before["subject"], "agent:narrow");
    assert_eq!(before["token"]["jti"], made["jti"]);
    assert_eq!(before["token"]["expires_at"], made["expires_at"]);
    assert_eq!(before["token"]["renew_until"], made["renew_until"]);

    let waiting = spawn_wait(&hub, token, &before["version"]);
    profile(json!(["todo", "scratchpad"]));
    hub.reload_profiles();
    let wider = expect_change(waiting, &before).await;
    assert_ne!(wider["tools"], before["tools"]);

    // A renewed token sees the same tools, but has another context.
    let renew = hub.http().post(hub.url("/api/v1/tokens/renew")).bearer_auth(token).send().await.unwrap();
    let renewed: Value = renew.json().await.unwrap();
    let next = context(&hub, renewed["token"].as_str().unwrap()).await;
    assert_eq!((&next["tools"], &next["subject"]), (&wider["tools"], &wider["subject"]));
    assert_ne!(next["version"], wider["version"]);
}

#[tokio::test]
async fn context_wait_ends_at_timeout_token_end_or_shutdown() {
    let hub = TestHub::start().await;
    let made = hub.token("agent", &["call:*"]).await;
    let now = context(&hub, &made.token).await;
    let version = now["version"].as_str().unwrap();
    let same = get(&hub, &made.token, "?wait=0", Some(version)).await;
    assert_eq!((same.status().as_u16(), same.text().await.unwrap().as_str()), (304, ""));
    let begun = tokio::time::Instant::now();
    assert_eq!(get(&hub, &made.token, "?wait=1", Some(version)).await.status(), 304);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it waited for the full time");
    assert_eq!(get(&hub, &made.token, "?wait=60", Some("another")).await.status(), 200, "at once");
    assert_eq!(get(&hub, &made.token, "?wait=61", None).await.status(), 400);

    let mut waiting = spawn_wait(&hub, &made.token, &now["version"]);
    hub.revoke(made.jti).await;
    assert_eq!(answer_of(&mut waiting).await.0, 401);

    let other = hub.token("other", &["call:*"]).await.token;
    let now = context(&hub, &other).await;
    let mut waiting = spawn_wait(&hub, &other, &now["version"]);
    let begun = tokio::time::Instant::now();
    let _dir = hub.stop().await;
    // 0: the hub was gone before the request arrived.
    assert!([304, 503, 0].contains(&answer_of(&mut waiting).await.0));
    assert!(begun.elapsed() < Duration::from_secs(20), "it does not delay the shutdown");
}

#[tokio::test]
async fn context_waits_are_limited() {
    let hub = TestHub::start().await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let now = context(&hub, &token).await;
    let mut refused = None;
    let mut waiting = Vec::new();
    for _ in 0..65 {
        waiting.push(spawn_wait(&hub, &token, &now["version"]));
    }
    // All requests arrive, and one of them is refused; which one is not determined.
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while refused.is_none() && tokio::time::Instant::now() < deadline {
        refused = waiting.iter_mut().find_map(JoinSet::try_join_next).map(Result::unwrap);
        tokio::time::sleep(super::POLL).await;
    }
    let (status, body) = refused.expect("one of them is refused");
    assert_eq!((status, &body["code"]), (429, &json!("overloaded")), "{body}");
    assert_eq!(get(&hub, &token, "", None).await.status(), 200, "a request without waiting needs no slot");
}
