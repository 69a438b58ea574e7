//! The fixture server on the HTTP+SSE transport of 2024-11-05.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use plexus_testkit::fixture::Fixture;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Events of a stream, as kind and data.
struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    async fn next(&mut self) -> (String, String) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_else(|| panic!("no {name} in {event:?}")).trim().to_owned()
                };
                let event = (field("event:"), field("data:"));
                self.text = rest.to_owned();
                return event;
            }
            let chunk = tokio::time::timeout(TIMEOUT, self.response.chunk()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&chunk.unwrap().expect("more events")).unwrap());
        }
    }
}

#[tokio::test]
async fn session_of_2024_uses_a_stream_and_posts() {
    let server = Fixture::new().listen_sse(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let open = async || {
        let response = http.get(server.url()).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = Events { response, text: String::new() };
        let (kind, path) = events.next().await;
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
        let (kind, answer) = events.next().await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((kind.as_str(), &answer["id"]), ("message", &json!(number)));
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        assert_eq!(post(to, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await, 202);
        let params = json!({ "name": "echo", "arguments": { "text": "hello" } });
        post(to, &json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params })).await;
        let (_, answer) = events.next().await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "hello");
    }
    let [_, (events, to)] = sessions;
    drop(events.response.bytes_stream().next());
    // The server notices the end of the stream asynchronously.
    let closed = async {
        while post(&to, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, closed).await.expect("a session that ends with its stream");
}
