//! Access to event streams, and what each caller sees.

use plexus_testkit::{EventRequest, ReceivedMessage, TestHub};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use crate::agent::{Agent, positions};

/// An error without the parts that differ from request to request.
fn refusal(answer: (u16, Value)) -> (u16, String, String) {
    let (status, body) = answer;
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("message"))
}

#[tokio::test]
async fn principal_sees_own_sessions_or_all_with_the_scope() {
    let hub = TestHub::start().await;
    let (ann, bob) = (Agent::new(&hub, "ann").await, Agent::new(&hub, "bob").await);
    let reader = hub.token("reader", &["read:sessions"]).await.token;
    ann.call("one").await;
    bob.call("one").await;
    let open = async |token: &str| hub.events("/ws/events?after=0", token).open().await;
    let mut streams = [open(&ann.token.token).await, open(&bob.token.token).await, open(&reader).await];
    let mut visible_positions = Vec::new();
    for stream in &mut streams {
        visible_positions.push(positions(&stream.until_live().await));
    }
    assert_eq!(visible_positions, [vec![1, 2], vec![3, 4], vec![1, 2, 3, 4]]);
    // The same for live events: ann's next event comes before bob's, and bob must not see it.
    ann.call("one").await;
    bob.call("one").await;
    let mut live = Vec::new();
    for stream in &mut streams {
        live.push((stream.event().await.pos, stream.event().await.pos));
    }
    assert_eq!(live, [(5, 6), (7, 8), (5, 6)]);
}

#[tokio::test]
async fn foreign_session_looks_like_a_missing_one() {
    let hub = TestHub::start().await;
    let (ann, bob) = (Agent::new(&hub, "ann").await, Agent::new(&hub, "bob").await);
    let id = ann.call("one").await;
    let mut answers = Vec::new();
    for id in [id.to_string(), "01890a5d-ac96-774b-bcce-b302099a8057".to_owned()] {
        for query in ["", "?after=0", "?after=99999"] {
            let request = hub.events(format!("/ws/sessions/{id}{query}"), &bob.token.token);
            answers.push(refusal(request.try_open().await.unwrap_err()));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!((answers[0].0, answers[0].1.as_str()), (404, "not_found"));
    hub.events(format!("/ws/sessions/{id}"), &ann.token.token).open().await;
}

#[tokio::test]
async fn token_is_accepted_in_header_or_subprotocol_but_not_in_url() {
    let hub = TestHub::start().await;
    let token = hub.token("visitor", &["call:*"]).await.token;
    let bare = |path: String| EventRequest::new(hub.address(), path);
    let plain = || bare("/ws/events".to_owned());

    assert_eq!(plain().bearer(&token).open().await.protocol(), None);
    let offered = format!("plexus.v1, bearer.{token}");
    let mut browser = plain().header("sec-websocket-protocol", &offered).open().await;
    assert_eq!(browser.protocol(), Some("plexus.v1"), "the token must not be echoed");
    assert!(matches!(browser.next().await, ReceivedMessage::Control(_)));

    let refused = [
        plain(),
        plain().bearer("nonsense"),
        plain().header("sec-websocket-protocol", "plexus.v1"),
        plain().header("sec-websocket-protocol", "plexus.v1, bearer.nonsense"),
        // The header takes precedence if both are present.
        plain().bearer("nonsense").header("sec-websocket-protocol", &offered),
        bare(format!("/ws/events?token={token}")),
        bare(format!("/ws/events?access_token={token}")),
    ];
    for request in refused {
        let (status, body) = request.try_open().await.unwrap_err();
        assert_eq!((status, &body["code"]), (401, &Value::from("unauthenticated")), "{request:?}");
    }
    let page = plain().bearer(&token).header("origin", "https://evil.example.com");
    assert_eq!(refusal(page.try_open().await.unwrap_err()).0, 403, "a page of another origin");
    let own = plain().bearer(&token).header("origin", "http://localhost:3000");
    own.open().await;
}

#[tokio::test]
async fn invalid_requests_are_refused_before_the_stream_starts() {
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let id = agent.call("one").await;
    for query in [
        "after=3",
        "after=-1",
        "after=x",
        "after=",
        "after=1&after=2",
        "after=0&last=1",
        "last=-1",
        "session=x",
        "unknown=1",
    ] {
        for path in [format!("/ws/sessions/{id}?{query}"), format!("/ws/events?{query}")] {
            let answer = refusal(hub.events(&path, &agent.token.token).try_open().await.unwrap_err());
            assert_eq!((answer.0, answer.1.as_str()), (400, "invalid_request"), "{path}");
        }
    }
    let bad = hub.events("/ws/sessions/nonsense", &agent.token.token).try_open().await.unwrap_err();
    assert_eq!(bad.0, 400);
    // A plain GET gets a hint.
    let request = hub.http().get(hub.url("/ws/events")).bearer_auth(&agent.token.token);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 426);
    assert!(response.text().await.unwrap().contains("/api/v1/events/stream"));
}

#[tokio::test]
async fn streams_per_subject_are_limited() {
    let hub = TestHub::start().await;
    let token = hub.token("greedy", &["call:*"]).await.token;
    let mut open = Vec::new();
    for _ in 0..128 {
        open.push(hub.events("/ws/events", &token).open().await);
    }
    let refused = refusal(hub.events("/ws/events", &token).try_open().await.unwrap_err());
    assert_eq!((refused.0, refused.1.as_str()), (429, "overloaded"));
    hub.events("/ws/events", &hub.token("modest", &["call:*"]).await.token).open().await;
    // The slot is free again when the stream has ended.
    open.pop().unwrap().socket().close(None).await.unwrap();
    let again = async { while hub.events("/ws/events", &token).try_open().await.is_err() {} };
    tokio::time::timeout(std::time::Duration::from_secs(10), again).await.expect("a free slot in time");
}

#[tokio::test]
async fn client_messages_are_ignored_up_to_a_limit() {
    use futures_util::SinkExt;
    let hub = TestHub::start().await;
    let agent = Agent::new(&hub, "a").await;
    let mut stream = hub.events("/ws/events", &agent.token.token).open().await;
    for message in
        [Message::text("{\"subscribe\":\"all\"}"), Message::binary(vec![0; 100]), Message::Ping("x".into())]
    {
        stream.socket().send(message).await.unwrap();
    }
    assert_eq!(stream.until_live().await, []);
    agent.call("one").await;
    for position in [1, 2] {
        assert_eq!(stream.event().await.pos, position, "the stream continues");
    }
    stream.socket().send(Message::text("x".repeat(5_000))).await.unwrap();
    assert_eq!(stream.end().await, ReceivedMessage::Closed { code: 1008, resume_after: Some(2) });

    let mut flooding = hub.events("/ws/events", &agent.token.token).open().await;
    for _ in 0..10_000 {
        if flooding.socket().send(Message::text("x")).await.is_err() {
            break;
        }
    }
    assert_ne!(flooding.end().await, ReceivedMessage::Closed { code: 1000, resume_after: None });
}
