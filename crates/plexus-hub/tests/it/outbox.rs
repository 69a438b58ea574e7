//! Writes that a proxy could not deliver, in the session they were for.

use plexus_testkit::TestHub;
use serde_json::{Value, json};

fn dead_letter(key: &str) -> Value {
    json!({
        "key": key,
        "tool": "todo",
        "reason": "there is no to-do 7 in this session",
        "occurred_at": "2026-11-18T06:00:00Z",
        "attempts": 1,
    })
}

async fn report(hub: &TestHub, token: &str, body: &Value) -> (u16, Value) {
    let request = hub.http().post(hub.url("/api/v1/outbox/letters")).bearer_auth(token).json(body);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn dead_letter_is_added_once_to_its_clients_session() {
    let hub = TestHub::start().await;
    let token = hub.token("agent", &["call:*"]).await.token;
    for (client, session, key) in [
        ("claude-code", Some("conv-1"), "claude:conv-1"),
        ("codex-mcp-client", Some("conv-2"), "codex:conv-2"),
        ("cursor", Some("conv-3"), "external:cursor:conv-3"),
        ("cursor", Some(""), "external:cursor:agent"),
        ("cursor", None, "external:cursor:agent"),
    ] {
        // The same session as that of a stateless client's call.
        let mut caller = hub.mcp(&token);
        if let Some(session) = session {
            caller = caller.header("plexus-session", session);
        }
        let meta = json!({ "io.modelcontextprotocol/clientInfo": { "name": client, "version": "1" } });
        let call = json!({ "name": "session_info", "_meta": meta });
        let info = caller.modern("tools/call", call).await.result();
        assert_eq!(info["structuredContent"]["key"], key, "{info}");

        let mut body = json!({ "client": client, "letters": [dead_letter("k1"), dead_letter("k 2 \u{e9}")] });
        if let Some(session) = session {
            body["session"] = json!(session);
        }
        let before = if session.is_none() { 0 } else { 2 };
        let (status, reported) = report(&hub, &token, &body).await;
        assert_eq!((status, &reported["added"]), (200, &json!(before)), "{reported}");
        assert_eq!(reported["session_id"], info["structuredContent"]["session_id"], "{client} {session:?}");
        body["letters"].as_array_mut().unwrap().push(dead_letter("k3"));
        let added = if session.is_none() { 0 } else { 1 };
        assert_eq!(report(&hub, &token, &body).await.1["added"], added, "each of them once");

        let path =
            format!("/api/v1/sessions/{}/events?kind=notification", reported["session_id"].as_str().unwrap());
        let events = hub.api(&path).await;
        assert_eq!(events["items"].as_array().unwrap().len(), 3, "{events}");
        let first = &events["items"][0]["payload"];
        assert_eq!(
            (&first["source"], &first["key"], &first["tool"]),
            (&json!("outbox"), &json!("k1"), &json!("todo"))
        );
        assert!(first["text"].as_str().unwrap().contains("there is no to-do 7"), "{first}");
    }
}

#[tokio::test]
async fn reported_letters_are_bounded() {
    let hub = TestHub::start().await;
    let token = hub.token("agent", &["call:*"]).await.token;
    let of = |letters: Vec<Value>| json!({ "client": "c", "letters": letters });
    let with = |field: &str, value: Value| {
        let mut dead_letter = dead_letter("k");
        dead_letter[field] = value;
        of(vec![dead_letter])
    };
    for body in [
        json!({ "client": "", "letters": [dead_letter("k")] }),
        json!({ "client": "x".repeat(257), "letters": [dead_letter("k")] }),
        json!({ "client": "c", "session": "x".repeat(257), "letters": [dead_letter("k")] }),
        of(vec![]),
        of((0..101).map(|n| dead_letter(&n.to_string())).collect()),
        with("key", json!("")),
        with("key", json!("x".repeat(256))),
        with("tool", json!("")),
        with("reason", json!("x".repeat(4_097))),
        with("occurred_at", json!("yesterday")),
        with("attempts", json!(-1)),
        of(vec![json!(["k", "todo", "", "2026-11-18T06:00:00Z", 1])]),
    ] {
        let (status, refused) = report(&hub, &token, &body).await;
        assert_eq!((status, &refused["code"]), (400, &json!("invalid_request")), "{body}: {refused}");
    }
}
