//! Sessions: opened, listed, shown.

use plexus_testkit::TestHub;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, send};

fn keys(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|session| session["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_is_made_once_and_found_by_its_name() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let made = agent.post("/sessions", &json!({ "name": "plan", "client": "codex" })).await;
    assert_eq!(made.status, 201);
    let id = made.body["id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), format!("/api/v1/sessions/{id}"));
    assert_eq!((&made.body["key"], &made.body["owner"]), (&json!("named:plan"), &json!("agent:codex")));
    let again = agent.post("/sessions", &json!({ "name": "plan" })).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.body, made.body);
    // A call that names the session is recorded in it.
    let call = agent.request(Method::POST, "/tools/todo/call").header("plexus-session", "plan");
    let call = send(call.json(&json!({ "arguments": { "action": "list" } }))).await.ok();
    assert_eq!(call["session_id"], id.as_str());
    // Without a name, each is another.
    let (a, b) = (agent.post("/sessions", &json!({})).await, agent.post("/sessions", &json!({})).await);
    assert_eq!((a.status, b.status), (201.try_into().unwrap(), 201.try_into().unwrap()));
    assert_ne!(a.body["id"], b.body["id"]);
    // The same name of another is another session.
    let other = Client::agent(&hub, "claude", &["call:*"]).await;
    assert_eq!(other.post("/sessions", &json!({ "name": "plan" })).await.status, 201);
    assert_eq!(other.get(&format!("/sessions/{id}")).await.refused(404), "not_found");
}

#[tokio::test]
async fn a_session_of_a_conversation_is_the_one_of_its_calls() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "claude", &["call:*"]).await;
    let params = json!({ "client": "claude-code", "conversation": "7d0f1c52", "name": "does not count" });
    let made = agent.post("/sessions", &params).await;
    assert_eq!((made.status.as_u16(), &made.body["key"]), (201, &json!("claude:7d0f1c52")));
    let other = agent.post("/sessions", &json!({ "client": "an-editor", "conversation": "7d0f1c52" })).await;
    assert_eq!(other.body["key"], "external:an-editor:7d0f1c52");
    assert_eq!(agent.post("/sessions", &params).await.body["id"], made.body["id"]);
}

#[tokio::test]
async fn lists_are_narrowed_and_paged() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    for name in ["a1", "a2", "a3", "b1"] {
        agent.post("/sessions", &json!({ "name": name, "client": format!("cli-{name}") })).await.ok();
    }
    let admin = Client::admin(&hub);
    admin.post("/sessions", &json!({ "name": "a9" })).await.ok();
    let first = agent.get("/sessions?key=named:a&limit=2").await.ok();
    assert_eq!(keys(&first), ["named:a3", "named:a2"]);
    let cursor = first["next"].as_str().unwrap();
    let last = agent.get(&format!("/sessions?key=named:a&limit=2&cursor={cursor}")).await.ok();
    assert_eq!((keys(&last), &last["next"]), (vec!["named:a1"], &Value::Null));
    assert_eq!(keys(&agent.get("/sessions?client=cli-b1").await.ok()), ["named:b1"]);
    assert_eq!(agent.get("/sessions?owner=admin:local").await.refused(403), "forbidden");
    assert_eq!(keys(&admin.get("/sessions?owner=admin:local").await.ok()), ["named:a9"]);
    assert_eq!(keys(&admin.get("/sessions?key=named:").await.ok()).len(), 5);
    assert_eq!(keys(&admin.get("/sessions?updated_after=2999-01-01T00:00:00Z").await.ok()), [""; 0]);
}

#[tokio::test]
async fn a_session_that_has_not_changed_is_not_sent_again() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let made = agent.post("/sessions", &json!({ "name": "plan" })).await.ok();
    let path = format!("/sessions/{}", made["id"].as_str().unwrap());
    let shown = agent.get(&path).await;
    assert_eq!(shown.body, made);
    let tag = shown.header("etag").to_owned();
    let known = |tag: &str| send(agent.request(Method::GET, &path).header("if-none-match", tag));
    let unchanged = known(&format!("\"other\", W/{tag}")).await;
    assert_eq!((unchanged.status.as_u16(), &unchanged.body), (304, &Value::Null));
    assert_eq!(unchanged.header("etag"), tag);
    let events = json!({ "events": [{ "kind": "note", "payload": {} }] });
    agent.post(&format!("{path}/events"), &events).await.ok();
    let changed = known(&tag).await;
    assert_eq!((changed.status.as_u16(), &changed.body["last_seq"]), (200, &json!(1)));
    assert_ne!(changed.header("etag"), tag);
}
