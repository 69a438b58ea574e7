//! The session stream (`GET`): keep-alives, list changes, resumption, and end.

use plexus_testkit::{McpClient, SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

use crate::tools::idle;

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn list_changed() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

/// A client that sees only tools whose names begin with `seen_`.
async fn narrow(hub: &TestHub, version: &str) -> McpClient {
    let token = hub.token("narrow", &["call:seen_*"]).await.token;
    hub.mcp(&token).initialize(version).await.0
}

/// The next message with its event id.
async fn next_message(stream: &mut SseStream) -> (String, Value) {
    loop {
        if let SseEvent::Message { id, json } = stream.next().await.expect("the stream goes on") {
            return (id.expect("an event id"), json);
        }
    }
}

#[tokio::test]
async fn stream_has_its_headers_and_keep_alives() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = narrow(&hub, version).await;
        let mut stream = client.get_stream().await;
        assert_eq!(stream.status(), 200, "{version}");
        let header = |name: &str| stream.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
        assert_eq!(header("cache-control").as_deref(), Some("no-cache, no-transform"));
        assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
        let mut comments = 0;
        while comments < 2 {
            match stream.next().await.unwrap() {
                SseEvent::Comment(text) => {
                    assert_eq!(text, " ", "a keep-alive is `: `");
                    comments += 1;
                }
                SseEvent::Priming { .. } => assert_eq!((version, comments), ("2025-11-25", 0)),
                SseEvent::Message { json, .. } => panic!("a message without a change: {json}"),
            }
        }
    }
}

#[tokio::test]
async fn get_needs_event_streams() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-06-18").await;
    assert_eq!(client.header("accept", "application/json").get().await.error(), (406, -32600));
    for accept in ["text/event-stream", "text/*", "*/*", "application/json, text/event-stream;q=0.5"] {
        assert_eq!(client.header("accept", accept).get_stream().await.status(), 200, "{accept}");
    }
}

#[tokio::test]
async fn list_changed_is_sent_only_for_visible_changes() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = narrow(&hub, version).await;
        let mut stream = client.get_stream().await;
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "{version}");

        hub.registry().add([idle("hidden_one")]);
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "a hidden tool was added, {version}");

        hub.registry().add([idle("seen_one")]);
        assert_eq!(stream.message().await, Some(list_changed()), "{version}");
        let list = client.call("tools/list", json!({})).await.result();
        assert_eq!(list["tools"][0]["name"], "seen_one", "{version}");

        hub.registry().add([idle("seen_one")]);
        assert_eq!(
            stream.until_quiet().await,
            Vec::<Value>::new(),
            "the same tool was added again, {version}"
        );

        hub.registry().remove(&["hidden_one"]);
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "a hidden tool was removed, {version}");

        hub.registry().remove(&["seen_one"]);
        assert_eq!(stream.message().await, Some(list_changed()), "{version}");
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "{version}");
    }
}

#[tokio::test]
async fn resumed_stream_reports_missed_changes_only() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = narrow(&hub, version).await;
        let mut stream = client.get_stream().await;
        // In revisions without a priming event the first id comes with the first message.
        hub.registry().add([idle("seen_one")]);
        let (id, message) = next_message(&mut stream).await;
        assert_eq!(message, list_changed(), "{version}");
        drop(stream);

        let resumed = client.header("last-event-id", &id);
        assert_eq!(
            resumed.get_stream().await.until_quiet().await,
            Vec::<Value>::new(),
            "nothing changed, {version}"
        );

        hub.registry().add([idle("hidden_one")]);
        let missed = resumed.get_stream().await.until_quiet().await;
        assert_eq!(missed, Vec::<Value>::new(), "a hidden tool was added meanwhile, {version}");

        hub.registry().add([idle("seen_two")]);
        let mut stream = resumed.get_stream().await;
        let (newer, message) = next_message(&mut stream).await;
        assert_eq!(message, list_changed(), "{version}");
        assert_ne!(newer, id, "{version}");
        assert_eq!(stream.until_quiet().await, Vec::<Value>::new(), "notified once, {version}");
        hub.registry().remove(&["seen_one", "seen_two", "hidden_one"]);
    }
}

#[tokio::test]
async fn priming_event_id_is_resumable_and_ignores_hidden_tools() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-11-25").await;
    let priming = async |client: &McpClient| match client.get_stream().await.next().await {
        Some(SseEvent::Priming { id }) => id,
        other => panic!("no priming event: {other:?}"),
    };
    let first = priming(&client).await;
    hub.registry().add([idle("hidden_one")]);
    assert_eq!(priming(&client).await, first, "the id reveals that a tool was added");

    let resumed = client.header("last-event-id", &first);
    assert_eq!(resumed.get_stream().await.until_quiet().await, Vec::<Value>::new());
    hub.registry().add([idle("seen_one")]);
    assert_eq!(resumed.get_stream().await.message().await, Some(list_changed()));
}

#[tokio::test]
async fn resumed_stream_reports_changes_across_a_restart() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-11-25").await;
    let mut stream = client.get_stream().await;
    hub.registry().add([idle("seen_one")]);
    let (id, _) = next_message(&mut stream).await;
    drop(stream);

    // The tool does not exist after the restart.
    let hub = hub.restart().await;
    let resumed = client.at(hub.url("/mcp")).header("last-event-id", &id);
    assert_eq!(resumed.get_stream().await.message().await, Some(list_changed()));
    hub.registry().add([idle("seen_one")]);
    assert_eq!(
        resumed.get_stream().await.until_quiet().await,
        Vec::<Value>::new(),
        "the list is the same again"
    );
}

#[tokio::test]
async fn unknown_event_id_is_answered_with_list_changed() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-06-18").await;
    for id in ["0", "x", "g-", "c-", "c-x-y", "-1"] {
        let message = client.header("last-event-id", id).get_stream().await.message().await;
        assert_eq!(message, Some(list_changed()), "{id}");
    }
}

#[tokio::test]
async fn second_get_replaces_the_first() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = narrow(&hub, version).await;
        let mut first = client.get_stream().await;
        assert_eq!(first.until_quiet().await, Vec::<Value>::new());
        let mut second = client.get_stream().await;
        while let Some(event) = first.next().await {
            assert!(matches!(event, SseEvent::Comment(_)), "{event:?}");
        }
        hub.registry().add([idle("seen_one")]);
        assert_eq!(second.message().await, Some(list_changed()), "{version}");
        hub.registry().remove(&["seen_one"]);
    }
}

#[tokio::test]
async fn each_session_has_its_own_stream() {
    let hub = TestHub::start().await;
    let token = hub.token("narrow", &["call:seen_*"]).await.token;
    let (one, _) = hub.mcp(&token).initialize("2025-06-18").await;
    let (two, _) = hub.mcp(&token).initialize("2025-11-25").await;
    let (mut one, mut two) = (one.get_stream().await, two.get_stream().await);
    hub.registry().add([idle("seen_one")]);
    assert_eq!(one.message().await, Some(list_changed()));
    assert_eq!(two.message().await, Some(list_changed()));
}

#[tokio::test]
async fn stream_ends_when_its_token_is_revoked() {
    let hub = TestHub::start().await;
    let token = hub.token("revoked", &["call:*"]).await;
    let (client, _) = hub.mcp(&token.token).initialize("2025-11-25").await;
    let mut stream = client.get_stream().await;
    stream.until_quiet().await;
    hub.revoke(token.jti).await;
    let revoked = std::time::Instant::now();
    while let Some(event) = stream.next().await {
        assert!(matches!(event, SseEvent::Comment(_)), "{event:?}");
    }
    assert!(revoked.elapsed().as_secs_f64() < 1.0, "{:?}", revoked.elapsed());
}

#[tokio::test]
async fn stream_ends_when_the_hub_stops() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-11-25").await;
    let mut stream = client.get_stream().await;
    stream.until_quiet().await;
    let (messages, _dir) = tokio::join!(stream.to_end(), hub.stop());
    assert_eq!(messages, Vec::<Value>::new());
}

/// A `HEAD` request must not end the client's stream.
#[tokio::test]
async fn head_request_does_not_replace_the_stream() {
    let hub = TestHub::start().await;
    let client = narrow(&hub, "2025-11-25").await;
    let mut stream = client.get_stream().await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("allow")), (405, Some("DELETE,GET,POST")));
    hub.registry().add([idle("seen_after")]);
    assert_eq!(next_message(&mut stream).await.1, list_changed());
}
