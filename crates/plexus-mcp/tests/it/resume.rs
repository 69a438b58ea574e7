//! Calls that take their time in the session era: progress, lost connections, and cancellation.

use plexus_testkit::{McpClient, RawConnection, SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

use crate::tools::puppet;

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

async fn session(hub: &TestHub, version: &str) -> McpClient {
    hub.mcp(&hub.token("worker", &["call:*"]).await.token).initialize(version).await.0
}

fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

/// Such a call that asks for progress and is therefore answered as a stream.
fn streamed_call(id: impl Into<Value>, tool: &str, token: impl Into<Value>) -> Value {
    let mut call = call(id, tool);
    call["params"]["_meta"] = json!({ "progressToken": token.into() });
    call
}

fn progress(token: impl Into<Value>, done: u32) -> Value {
    let params = json!({ "progressToken": token.into(), "progress": done, "total": 3, "message": format!("step {done}") });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({ "requestId": id.into(), "reason": "changed my mind" });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}

/// The next message and its event id, which every message of such a stream has.
async fn next_message(stream: &mut SseStream) -> (String, Value) {
    loop {
        if let SseEvent::Message { id, json } = stream.next().await.expect("the stream goes on") {
            return (id.expect("an event id"), json);
        }
    }
}

#[tokio::test]
async fn progress_comes_on_the_stream_of_the_call_and_then_the_result() {
    let hub = TestHub::start().await;
    for (version, token) in VERSIONS.into_iter().zip([json!("t"), json!(7), json!("7"), json!(0)]) {
        let client = session(&hub, version).await;
        let (tool, mut strings) = puppet("work");
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call("a", "work", token.clone())).await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        assert_eq!(stream.headers()["x-accel-buffering"], "no");
        strings.started().await;
        strings.progress(1.0).await;
        let (first, message) = next_message(&mut stream).await;
        assert_eq!(as_integers(message), progress(token.clone(), 1), "{version}");
        // Progress only ever goes up.
        strings.progress(1.0).await;
        strings.progress(0.5).await;
        strings.progress(2.0).await;
        let (second, message) = next_message(&mut stream).await;
        assert_eq!(as_integers(message), progress(token.clone(), 2), "{version}");
        strings.finish("done").await;
        let (third, message) = next_message(&mut stream).await;
        assert_eq!((&message["id"], &message["result"]["content"][0]["text"]), (&json!("a"), &json!("done")));
        assert_eq!(stream.next().await, None, "the stream ends with the result");
        assert!(first != second && second != third && first != third, "{first} {second} {third}");
    }
}

/// JSON has one kind of number; ours come as 1.0 or 1.
fn as_integers(mut message: Value) -> Value {
    for name in ["progress", "total"] {
        if let Some(number) = message["params"][name].as_f64() {
            message["params"][name] = json!(number as u32);
        }
    }
    message
}

#[tokio::test]
async fn a_keep_alive_fills_the_silence_of_a_long_call() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let (tool, mut strings) = puppet("work");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call(1, "work", 1)).await;
    strings.started().await;
    for _ in 0..2 {
        assert_eq!(stream.next().await, Some(SseEvent::Comment(" ".to_owned())));
    }
    strings.finish("done").await;
    assert_eq!(stream.message().await.unwrap()["result"]["isError"], false);
}

#[tokio::test]
async fn a_call_outlives_its_connection_and_its_result_is_there_for_who_comes_back() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = session(&hub, version).await;
        let (tool, mut strings) = puppet("work");
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call("r", "work", "t")).await;
        strings.started().await;
        strings.progress(1.0).await;
        let (last, _) = next_message(&mut stream).await;
        drop(stream);
        strings.progress(2.0).await;
        strings.progress(3.0).await;
        strings.finish("kept").await;
        strings.over().await;
        assert_eq!(hub.outcome_of("work").await, "ok", "to lose a connection is not to cancel, {version}");

        let back = client.header("last-event-id", &last);
        for round in ["first", "again"] {
            let messages = back.get_stream().await.to_end().await;
            assert_eq!(messages.len(), 3, "{round} in {version}: {messages:?}");
            assert_eq!(as_integers(messages[0].clone()), progress("t", 2));
            assert_eq!(as_integers(messages[1].clone()), progress("t", 3));
            assert_eq!(messages[2]["id"], "r");
            assert_eq!(messages[2]["result"]["content"][0]["text"], "kept");
        }
    }
}

#[tokio::test]
async fn coming_back_while_the_call_still_runs_follows_it_to_its_end() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-11-25").await;
    let (tool, mut strings) = puppet("work");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call(1, "work", "t")).await;
    strings.started().await;
    // From the priming event on: nothing of the call was seen yet.
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("no priming event") };
    drop(stream);
    let mut stream = client.header("last-event-id", &id).get_stream().await;
    strings.progress(1.0).await;
    assert_eq!(as_integers(stream.message().await.unwrap()), progress("t", 1));
    assert!(!strings.is_over());
    strings.finish("done").await;
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "done");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn streams_are_resumed_one_by_one_and_only_within_their_session() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let mut last = Vec::new();
    for name in ["left", "right"] {
        let (tool, mut strings) = puppet(name);
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call(name, name, name)).await;
        strings.started().await;
        strings.progress(1.0).await;
        last.push(next_message(&mut stream).await.0);
        drop(stream);
        strings.finish(name).await;
        strings.over().await;
    }
    for (id, name) in last.iter().zip(["left", "right"]) {
        let messages = client.header("last-event-id", id).get_stream().await.to_end().await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["result"]["content"][0]["text"], name);
    }
    let elsewhere = session(&hub, "2025-06-18").await.header("last-event-id", &last[0]);
    assert_eq!(elsewhere.get_stream().await.to_end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_stream_from_before_a_restart_is_not_resumed_with_that_of_another_call() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-11-25").await;
    let (tool, mut strings) = puppet("before");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call("before", "before", "b")).await;
    strings.started().await;
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("no priming event") };
    strings.finish("before").await;
    stream.to_end().await;
    let hub = hub.restart().await;
    let client = client.at(hub.url("/mcp"));
    let (tool, mut strings) = puppet("after");
    hub.registry().add([tool]);
    let stream = client.post_stream(&streamed_call("after", "after", "a")).await;
    strings.started().await;
    strings.finish("after").await;
    assert_eq!(stream.to_end().await.len(), 1);
    // Nothing more: not the other call, and not a stream that never ends.
    for gone in [id.as_str(), "c-1-0"] {
        let resumed = client.header("last-event-id", gone).get_stream().await.to_end().await;
        assert_eq!(resumed, Vec::<Value>::new(), "{gone}");
    }
}

#[tokio::test]
async fn to_lose_the_connection_of_a_plain_call_is_not_to_cancel_it() {
    let hub = TestHub::start().await;
    let token = hub.token("worker", &["call:*"]).await.token;
    for version in VERSIONS {
        let (client, _) = hub.mcp(&token).initialize(version).await;
        let (tool, mut strings) = puppet("work");
        hub.registry().add([tool]);
        let body = call(1, "work").to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nMcp-Session-Id: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            client.session_id().unwrap(),
            body.len()
        );
        let mut connection = RawConnection::open(hub.address()).await;
        connection.send(format!("{head}{body}")).await;
        strings.started().await;
        connection.hang_up().await;
        assert!(!strings.is_over(), "{version}");
        strings.finish("done").await;
        strings.over().await;
        assert_eq!(hub.outcome_of("work").await, "ok", "{version}");
    }
}

#[tokio::test]
async fn notifications_cancelled_stops_a_streamed_call_and_its_stream_ends_without_an_answer() {
    let hub = TestHub::start().await;
    for (version, id) in VERSIONS.into_iter().zip([json!(1), json!("1"), json!(0), json!("x")]) {
        let client = session(&hub, version).await;
        let (tool, mut strings) = puppet("work");
        hub.registry().add([tool]);
        let stream = client.post_stream(&streamed_call(id.clone(), "work", "t")).await;
        strings.started().await;
        assert_eq!(client.post_json(&cancelled(id)).await.status, 202);
        strings.over().await;
        assert_eq!(stream.to_end().await, Vec::<Value>::new(), "{version}");
        assert_eq!(hub.outcome_of("work").await, "cancelled", "{version}");
    }
}

#[tokio::test]
async fn notifications_cancelled_stops_a_plain_call() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = session(&hub, version).await;
        let (tool, mut strings) = puppet("work");
        hub.registry().add([tool]);
        let cancel = async {
            strings.started().await;
            assert_eq!(client.post_json(&cancelled("p")).await.status, 202);
            strings.over().await;
        };
        // HTTP wants an answer where the protocol wants none.
        let work = call("p", "work");
        let (answer, ()) = tokio::join!(client.post_json(&work), cancel);
        assert_eq!(answer.result()["isError"], true, "{version}");
        assert_eq!(hub.outcome_of("work").await, "cancelled", "{version}");
    }
}

#[tokio::test]
async fn cancelling_reaches_only_a_call_of_the_same_session_with_the_same_id() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let strangers = hub.mcp(&hub.token("stranger", &["call:*"]).await.token).initialize("2025-06-18").await.0;
    let (tool, mut strings) = puppet("work");
    hub.registry().add([tool]);
    let stream = client.post_stream(&streamed_call(1, "work", "t")).await;
    strings.started().await;
    for (client, id) in [(&strangers, json!(1)), (&client, json!("1")), (&client, json!(2))] {
        assert_eq!(client.post_json(&cancelled(id)).await.status, 202);
    }
    strings.finish("undisturbed").await;
    let messages = stream.to_end().await;
    assert_eq!(messages[0]["result"]["content"][0]["text"], "undisturbed");
}
