//! Session events: appending by clients, and reading from a given number.

use plexus_testkit::TestHub;
use serde_json::{Value, json};

use crate::client::Client;

/// Opens a session for the client; returns the path of its events.
async fn session(client: &Client<'_>) -> String {
    let made = client.post("/sessions", &json!({})).await.ok();
    format!("/sessions/{}/events", made["id"].as_str().unwrap())
}

fn note(text: &str) -> Value {
    json!({ "kind": "note", "payload": { "text": text } })
}

fn texts(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|event| event["payload"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn append_checks_the_expected_sequence() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let path = session(&agent).await;
    let first = agent.post(&path, &json!({ "expected_seq": 0, "events": [note("a"), note("b")] })).await.ok();
    assert_eq!((&first["last_seq"], &first["events"][1]["seq"]), (&json!(2), &json!(2)));
    assert_eq!(first["events"][0]["actor"], "agent:codex");
    let late = agent.post(&path, &json!({ "expected_seq": 0, "events": [note("c")] })).await;
    assert_eq!(late.refused(409), "conflict");
    assert_eq!(late.body["details"], json!({ "last_seq": 2 }));
    agent.post(&path, &json!({ "expected_seq": 2, "events": [note("c")] })).await.ok();
    assert_eq!(texts(&agent.get(&path).await.ok()), ["a", "b", "c"]);
}

#[tokio::test]
async fn repeated_event_is_stored_once() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let path = session(&agent).await;
    let event = json!({ "kind": "note", "payload": { "text": "a" }, "external_id": "x1",
        "at": "2024-05-01T12:00:00.5Z" });
    let request = json!({ "expected_seq": 0, "events": [event] });
    let first = agent.post(&path, &request).await.ok();
    assert_eq!(first["events"][0]["at"], "2024-05-01T12:00:00.5Z");
    assert_eq!(agent.post(&path, &request).await.ok(), first);
    assert_eq!(texts(&agent.get(&path).await.ok()), ["a"]);
}

#[tokio::test]
async fn invalid_event_is_refused_and_nothing_is_stored() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let path = session(&agent).await;
    let with = |field: &str, value: Value| {
        let mut event = note("x");
        event[field] = value;
        json!({ "events": [note("fine"), event] })
    };
    let refused = [
        with("kind", json!("tool_call")),
        with("kind", json!("approval_decided")),
        with("kind", json!("Note")),
        with("kind", json!("n".repeat(65))),
        with("payload", json!("text")),
        with("payload", json!({ "text": "x".repeat(64 << 10) })),
        with("external_id", json!("")),
        with("external_id", json!("a\u{0}b")),
        with("at", json!("2999-01-01T00:00:00Z")),
        with("actor", json!("agent:other")),
        json!({ "events": [["note", {}, null, null]] }),
        json!({ "events": [] }),
        json!({ "events": vec![note("x"); 101] }),
        json!({ "expected_seq": -1, "events": [note("x")] }),
    ];
    for body in refused {
        let answer = agent.post(&path, &body).await;
        assert_eq!(answer.refused(400), "invalid_request", "{body}");
    }
    assert_eq!(agent.get(&path).await.ok()["items"], json!([]));
    assert_eq!(agent.post(&path, &json!({ "events": vec![note("x"); 100] })).await.ok()["last_seq"], 100);
}

#[tokio::test]
async fn append_requires_ownership_or_the_scope() {
    let hub = TestHub::start().await;
    let owner = Client::agent(&hub, "codex", &["call:*"]).await;
    let path = session(&owner).await;
    let body = json!({ "events": [note("a")] });
    let stranger = Client::agent(&hub, "stranger", &["call:*"]).await;
    assert_eq!(stranger.post(&path, &body).await.refused(404), "not_found");
    assert_eq!(stranger.get(&path).await.refused(404), "not_found");
    let reader = Client::agent(&hub, "reader", &["read:sessions"]).await;
    assert_eq!(reader.post(&path, &body).await.refused(403), "forbidden");
    let writer = Client::agent(&hub, "writer", &["write:sessions"]).await;
    assert_eq!(writer.post(&path, &body).await.ok()["events"][0]["actor"], "agent:writer");
    assert_eq!(texts(&reader.get(&path).await.ok()), ["a"]);
}

#[tokio::test]
async fn events_can_be_read_by_number_kind_and_page() {
    let hub = TestHub::start().await;
    let agent = Client::agent(&hub, "codex", &["call:*"]).await;
    let path = session(&agent).await;
    let other = json!({ "kind": "mark", "payload": { "text": "m" } });
    let events = [note("a"), other.clone(), note("b"), other, note("c")];
    agent.post(&path, &json!({ "events": events })).await.ok();
    assert_eq!(texts(&agent.get(&format!("{path}?after=3")).await.ok()), ["m", "c"]);
    assert_eq!(texts(&agent.get(&format!("{path}?kind=note&after=1")).await.ok()), ["b", "c"]);
    let (mut collected, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = agent.get(&format!("{path}?kind=note&limit=2{cursor}")).await.ok();
        collected.extend(texts(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(collected, ["a", "b", "c"]);
}
