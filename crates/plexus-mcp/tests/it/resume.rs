//! Long calls in the session era: progress, lost connections, and cancellation.

use plexus_testkit::{McpClient, RawConnection, SseEvent, SseStream, TestHub};
use serde_json::{Value, json};

use crate::tools::controlled_tool;

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

async fn session(hub: &TestHub, version: &str) -> McpClient {
    hub.mcp(&hub.token("worker", &["call:*"]).await.token).initialize(version).await.0
}

fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

/// A call with a progress token, which is answered as a stream.
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

/// The next message and its event id.
async fn next_message(stream: &mut SseStream) -> (String, Value) {
    loop {
        if let SseEvent::Message { id, json } = stream.next().await.expect("the stream goes on") {
            return (id.expect("an event id"), json);
        }
    }
}

#[tokio::test]
async fn progress_precedes_the_result_on_the_stream() {
    let hub = TestHub::start().await;
    for (version, token) in VERSIONS.into_iter().zip([json!("t"), json!(7), json!("7"), json!(0)]) {
        let client = session(&hub, version).await;
        let (tool, mut control) = controlled_tool("work");
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call("a", "work", token.clone())).await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        assert_eq!(stream.headers()["x-accel-buffering"], "no");
        control.started().await;
        control.progress(1.0).await;
        let (first, message) = next_message(&mut stream).await;
        assert_eq!(as_integers(message), progress(token.clone(), 1), "{version}");
        // Values that do not increase are not sent.
        control.progress(1.0).await;
        control.progress(0.5).await;
        control.progress(2.0).await;
        let (second, message) = next_message(&mut stream).await;
        assert_eq!(as_integers(message), progress(token.clone(), 2), "{version}");
        control.finish("done").await;
        let (third, message) = next_message(&mut stream).await;
        assert_eq!((&message["id"], &message["result"]["content"][0]["text"]), (&json!("a"), &json!("done")));
        assert_eq!(stream.next().await, None, "the stream ends with the result");
        assert!(first != second && second != third && first != third, "{first} {second} {third}");
    }
}

/// Converts progress numbers such as 1.0 to 1 for comparison.
fn as_integers(mut message: Value) -> Value {
    for name in ["progress", "total"] {
        if let Some(number) = message["params"][name].as_f64() {
            message["params"][name] = json!(number as u32);
        }
    }
    message
}

#[tokio::test]
async fn long_call_sends_keep_alives() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call(1, "work", 1)).await;
    control.started().await;
    for _ in 0..2 {
        assert_eq!(stream.next().await, Some(SseEvent::Comment(" ".to_owned())));
    }
    control.finish("done").await;
    assert_eq!(stream.message().await.unwrap()["result"]["isError"], false);
}

#[tokio::test]
async fn call_survives_a_lost_connection_and_can_be_resumed() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = session(&hub, version).await;
        let (tool, mut control) = controlled_tool("work");
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call("r", "work", "t")).await;
        control.started().await;
        control.progress(1.0).await;
        let (last, _) = next_message(&mut stream).await;
        drop(stream);
        control.progress(2.0).await;
        control.progress(3.0).await;
        control.finish("kept").await;
        control.wait_until_over().await;
        assert_eq!(hub.outcome_of("work").await, "ok", "a lost connection does not cancel, {version}");

        let resumed = client.header("last-event-id", &last);
        for round in ["first", "again"] {
            let messages = resumed.get_stream().await.to_end().await;
            assert_eq!(messages.len(), 3, "{round} in {version}: {messages:?}");
            assert_eq!(as_integers(messages[0].clone()), progress("t", 2));
            assert_eq!(as_integers(messages[1].clone()), progress("t", 3));
            assert_eq!(messages[2]["id"], "r");
            assert_eq!(messages[2]["result"]["content"][0]["text"], "kept");
        }
    }
}

#[tokio::test]
async fn running_call_can_be_resumed() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-11-25").await;
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call(1, "work", "t")).await;
    control.started().await;
    // Resumes after the priming event, before any message.
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("no priming event") };
    drop(stream);
    let mut stream = client.header("last-event-id", &id).get_stream().await;
    control.progress(1.0).await;
    assert_eq!(as_integers(stream.message().await.unwrap()), progress("t", 1));
    assert!(!control.is_over());
    control.finish("done").await;
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "done");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn streams_are_resumed_separately_within_their_session() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let mut last = Vec::new();
    for name in ["left", "right"] {
        let (tool, mut control) = controlled_tool(name);
        hub.registry().add([tool]);
        let mut stream = client.post_stream(&streamed_call(name, name, name)).await;
        control.started().await;
        control.progress(1.0).await;
        last.push(next_message(&mut stream).await.0);
        drop(stream);
        control.finish(name).await;
        control.wait_until_over().await;
    }
    for (id, name) in last.iter().zip(["left", "right"]) {
        let messages = client.header("last-event-id", id).get_stream().await.to_end().await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["result"]["content"][0]["text"], name);
    }
    let other_session = session(&hub, "2025-06-18").await.header("last-event-id", &last[0]);
    assert_eq!(other_session.get_stream().await.to_end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn stream_from_before_a_restart_resumes_as_empty() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-11-25").await;
    let (tool, mut control) = controlled_tool("before");
    hub.registry().add([tool]);
    let mut stream = client.post_stream(&streamed_call("before", "before", "b")).await;
    control.started().await;
    let Some(SseEvent::Priming { id }) = stream.next().await else { panic!("no priming event") };
    control.finish("before").await;
    stream.to_end().await;
    let hub = hub.restart().await;
    let client = client.at(hub.url("/mcp"));
    let (tool, mut control) = controlled_tool("after");
    hub.registry().add([tool]);
    let stream = client.post_stream(&streamed_call("after", "after", "a")).await;
    control.started().await;
    control.finish("after").await;
    assert_eq!(stream.to_end().await.len(), 1);
    // An empty stream: neither the other call nor a stream that stays open.
    for unknown_id in [id.as_str(), "c-1-0"] {
        let resumed = client.header("last-event-id", unknown_id).get_stream().await.to_end().await;
        assert_eq!(resumed, Vec::<Value>::new(), "{unknown_id}");
    }
}

#[tokio::test]
async fn lost_connection_does_not_cancel_a_plain_call() {
    let hub = TestHub::start().await;
    let token = hub.token("worker", &["call:*"]).await.token;
    for version in VERSIONS {
        let (client, _) = hub.mcp(&token).initialize(version).await;
        let (tool, mut control) = controlled_tool("work");
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
        control.started().await;
        connection.hang_up().await;
        assert!(!control.is_over(), "{version}");
        control.finish("done").await;
        control.wait_until_over().await;
        assert_eq!(hub.outcome_of("work").await, "ok", "{version}");
    }
}

#[tokio::test]
async fn cancellation_ends_a_stream_without_an_answer() {
    let hub = TestHub::start().await;
    for (version, id) in VERSIONS.into_iter().zip([json!(1), json!("1"), json!(0), json!("x")]) {
        let client = session(&hub, version).await;
        let (tool, mut control) = controlled_tool("work");
        hub.registry().add([tool]);
        let stream = client.post_stream(&streamed_call(id.clone(), "work", "t")).await;
        control.started().await;
        assert_eq!(client.post_json(&cancelled(id)).await.status, 202);
        control.wait_until_over().await;
        assert_eq!(stream.to_end().await, Vec::<Value>::new(), "{version}");
        assert_eq!(hub.outcome_of("work").await, "cancelled", "{version}");
    }
}

#[tokio::test]
async fn cancellation_stops_a_plain_call() {
    let hub = TestHub::start().await;
    for version in VERSIONS {
        let client = session(&hub, version).await;
        let (tool, mut control) = controlled_tool("work");
        hub.registry().add([tool]);
        let cancel = async {
            control.started().await;
            assert_eq!(client.post_json(&cancelled("p")).await.status, 202);
            control.wait_until_over().await;
        };
        // HTTP requires an answer although MCP does not.
        let work = call("p", "work");
        let (answer, ()) = tokio::join!(client.post_json(&work), cancel);
        assert_eq!(answer.result()["isError"], true, "{version}");
        assert_eq!(hub.outcome_of("work").await, "cancelled", "{version}");
    }
}

#[tokio::test]
async fn cancellation_needs_the_same_session_and_id() {
    let hub = TestHub::start().await;
    let client = session(&hub, "2025-06-18").await;
    let strangers = hub.mcp(&hub.token("stranger", &["call:*"]).await.token).initialize("2025-06-18").await.0;
    let (tool, mut control) = controlled_tool("work");
    hub.registry().add([tool]);
    let stream = client.post_stream(&streamed_call(1, "work", "t")).await;
    control.started().await;
    for (client, id) in [(&strangers, json!(1)), (&client, json!("1")), (&client, json!(2))] {
        assert_eq!(client.post_json(&cancelled(id)).await.status, 202);
    }
    control.finish("undisturbed").await;
    let messages = stream.to_end().await;
    assert_eq!(messages[0]["result"]["content"][0]["text"], "undisturbed");
}
