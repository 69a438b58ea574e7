//! The fixture server on the HTTP+SSE transport of 2024-11-05.

use std::net::SocketAddr;
use std::time::Duration;

use plexus_testkit::SseStream;
use plexus_testkit::fixture::Fixture;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The kind and the data of the next event.
async fn next(events: &mut SseStream) -> (String, String) {
    let event = events.fields().await.expect("more events");
    (event.name.expect("a kind"), event.data.expect("data"))
}

#[tokio::test]
async fn session_of_2024_uses_a_stream_and_posts() {
    let server = Fixture::new().listen_sse(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let open = async || {
        let response = http.get(server.url()).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = SseStream::new(response);
        let (kind, path) = next(&mut events).await;
        assert_eq!(kind, "endpoint");
        (events, server.url().replace("/sse", &path))
    };
    let post = async |to: &str, message: &Value| {
        http.post(to).body(format!("{message:#}")).send().await.unwrap().status().as_u16()
    };
    // Two sessions, so that an answer on the wrong stream would be noticed.
    let mut sessions = [open().await, open().await];
    for (number, (events, to)) in sessions.iter_mut().enumerate() {
        let client = json!({ "name": "testkit", "version": "1" });
        let params = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client });
        let request = json!({ "jsonrpc": "2.0", "id": number, "method": "initialize", "params": params });
        assert_eq!(post(to, &request).await, 202);
        let (kind, answer) = next(events).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((kind.as_str(), &answer["id"]), ("message", &json!(number)));
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        assert_eq!(post(to, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await, 202);
        let params = json!({ "name": "echo", "arguments": { "text": "hello" } });
        post(to, &json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params })).await;
        let (_, answer) = next(events).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "hello");
    }
    let [_, (events, to)] = sessions;
    drop(events);
    // The server notices the end of the stream asynchronously.
    let closed = async {
        while post(&to, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, closed).await.expect("a session that ends with its stream");
}
