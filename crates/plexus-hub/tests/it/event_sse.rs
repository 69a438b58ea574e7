//! The event streams as server-sent events.

use plexus_testkit::{SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

use crate::agent::Agent;

async fn get(hub: &TestHub, path: &str, token: &str, last_event_id: Option<&str>) -> SseStream {
    let mut request = hub.http().get(hub.url(path)).bearer_auth(token);
    if let Some(id) = last_event_id {
        request = request.header("last-event-id", id);
    }
    SseStream::new(request.send().await.unwrap())
}

/// The next message with its id.
async fn message(stream: &mut SseStream) -> (String, Value) {
    loop {
        match stream.next().await.expect("an open stream") {
            SseEvent::Message { id, json } => return (id.expect("an id"), json),
            SseEvent::Comment(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn sse_events_have_ids_to_resume_from() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    agent.call("other").await;
    let id = agent.call("one").await;
    let path = format!("/api/v1/sessions/{id}/events/stream?after=0");
    let mut stream = get(&hub, &path, &agent.token.token, None).await;
    assert_eq!(
        (stream.status(), &stream.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    assert_eq!(message(&mut stream).await, ("0".to_owned(), json!({ "control": "open", "after": 0 })));
    for seq in 1..=2 {
        let (event_id, event) = message(&mut stream).await;
        assert_eq!((event_id, &event["seq"]), (seq.to_string(), &json!(seq)));
        assert_eq!(event["session_id"], id.to_string().as_str());
    }
    assert_eq!(message(&mut stream).await, ("2".to_owned(), json!({ "control": "live", "after": 2 })));
    agent.call("one").await;
    assert_eq!(message(&mut stream).await.0, "3");

    // The last event that the client received takes precedence over its URL, which is from its first attempt.
    let mut again = get(&hub, &path, &agent.token.token, Some("3")).await;
    assert_eq!(message(&mut again).await.1, json!({ "control": "open", "after": 3 }));
    assert_eq!(message(&mut again).await.0, "4");
    let mut all = get(&hub, "/api/v1/events/stream?last=1", &agent.token.token, None).await;
    assert_eq!(message(&mut all).await.0, "5");
    assert_eq!(message(&mut all).await.0, "6");
}

#[tokio::test]
async fn sse_event_name_is_its_kind() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    agent.call("one").await;
    let request = hub.http().get(hub.url("/api/v1/events/stream?after=0")).bearer_auth(&agent.token.token);
    let mut response = request.send().await.unwrap();
    let mut text = String::new();
    while !text.contains("\"live\"") {
        let chunk = response.chunk().await.unwrap().expect("an open stream");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["control", "tool_started", "tool_call", "control"], "{text}");
}

#[tokio::test]
async fn idle_stream_sends_comments_and_ends_with_its_token_or_the_hub() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let mut stream = get(&hub, "/api/v1/events/stream", &agent.token.token, None).await;
    let controls = stream.until_quiet().await;
    assert_eq!(controls.len(), 2, "{controls:?}");
    hub.revoke(agent.token.jti).await;
    assert_eq!(stream.to_end().await, Vec::<Value>::new());

    let mut stream = get(&hub, "/api/v1/events/stream", &hub.admin_token(), None).await;
    stream.until_quiet().await;
    let (rest, _dir) = tokio::join!(stream.to_end(), hub.stop());
    assert_eq!(rest, Vec::<Value>::new());
}

#[tokio::test]
async fn sse_errors_use_the_error_envelope() {
    let hub = TestHub::start().await;
    let (ann, bob) = (Agent::new(&hub, "ann").await, Agent::new(&hub, "bob").await);
    let id = ann.call("one").await;
    let session = format!("/api/v1/sessions/{id}/events/stream");
    for (path, token, last, status, code) in [
        (session.as_str(), "nonsense", None, 401, "unauthenticated"),
        (&session, &bob.token.token, None, 404, "not_found"),
        (&session, &ann.token.token, Some("x"), 400, "invalid_request"),
        (&session, &ann.token.token, Some("3"), 400, "invalid_request"),
        ("/api/v1/events/stream?after=x", &ann.token.token, None, 400, "invalid_request"),
    ] {
        let mut request = hub.http().get(hub.url(path)).bearer_auth(token);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{path} {last:?}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["code"], code, "{path} {body}");
    }
}
