//! Sessions: opening, listing, showing.

use plexus_testkit::TestHub;
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, send};

fn keys(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|session| session["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn session_is_created_once_and_found_by_name() {
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
    // Without a name, every session is new.
    let (a, b) = (agent.post("/sessions", &json!({})).await, agent.post("/sessions", &json!({})).await);
    assert_eq!((a.status, b.status), (201.try_into().unwrap(), 201.try_into().unwrap()));
    assert_ne!(a.body["id"], b.body["id"]);
    // The same name of another subject is another session.
    let other = Client::agent(&hub, "claude", &["call:*"]).await;
    assert_eq!(other.post("/sessions", &json!({ "name": "plan" })).await.status, 201);
    assert_eq!(other.get(&format!("/sessions/{id}")).await.refused(404), "not_found");
}

#[tokio::test]
async fn conversation_session_is_that_of_its_calls() {
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
async fn lists_are_filtered_and_paged() {
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
async fn unchanged_session_returns_not_modified() {
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

#[tokio::test]
async fn session_stats_require_read_access() {
    let hub = TestHub::start().await;
    let token = hub.token("counted", &["call:*"]).await.token;
    let client = hub.mcp(&token).header("plexus-session", "conv");
    let call = async |arguments: Value, meta: Value| {
        client
            .modern("tools/call", json!({ "name": "todo", "arguments": arguments, "_meta": meta }))
            .await
            .result()
    };
    let note = json!({ "plexus/idempotency-key": "k", "plexus/occurred-at": "2026-01-01T00:00:00Z" });
    for _ in 0..2 {
        call(json!({ "action": "add", "text": "milk" }), note.clone()).await;
    }
    assert_eq!(call(json!({ "action": "remove", "id": 9 }), json!({})).await["isError"], true);

    let get = async |token: &str, path: &str| -> (u16, Value) {
        let answer = hub.http().get(hub.url(path)).bearer_auth(token).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    };
    let (status, page) = get(&token, "/api/v1/sessions/stats?limit=1").await;
    assert_eq!(
        (status, page["items"].as_array().unwrap().len(), &page["next"]),
        (200, 1, &Value::Null),
        "{page}"
    );
    let stats = &page["items"][0];
    let calls = &stats["calls"];
    assert_eq!(
        (&calls["total"], &calls["failed"]),
        (&json!(2), &json!(1)),
        "the second one was a replay: {stats}"
    );
    assert_eq!(calls["failures"], json!({ "not_found": 1 }), "{stats}");
    assert_eq!(
        (&calls["tools"][0]["tool"], &calls["tools"][0]["calls"]),
        (&json!("todo"), &json!(2)),
        "{stats}"
    );
    assert_eq!(stats["queued"]["writes"], 1, "{stats}");
    assert!(stats["queued"]["longest_ms"].as_i64().unwrap() > 1_000_000_000, "{stats}");
    assert_eq!((&stats["tokens"], &stats["partial"]), (&Value::Null, &json!(false)), "{stats}");

    let path = format!("/api/v1/sessions/{}/stats", stats["session"]["id"].as_str().unwrap());
    assert_eq!(get(&token, &path).await, (200, stats.clone()));
    assert_eq!(get(&hub.admin_token(), &path).await.0, 200);
    let other = hub.token("other", &["call:*"]).await.token;
    assert_eq!(get(&other, &path).await.0, 404);
    assert_eq!(get(&other, "/api/v1/sessions/stats").await.1["items"], json!([]));
    assert_eq!(get(&other, "/api/v1/sessions/stats?owner=agent:counted").await.0, 403);
}
