//! A hub and one connection to it that is reused as long as possible.
//!
//! Requests use a real socket in the same thread as the hub: the effect of a request is visible to the next one.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::{RawAnswer, TestHub, messages_of};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the first event of a stream, which may be idle.
const FIRST_EVENT: Duration = Duration::from_millis(5);

pub(super) struct Wire {
    runtime: Runtime,
    hub: TestHub,
    connection: Option<TcpStream>,
}

/// An answer; the body of a stream is its first events.
pub(super) type Reply = RawAnswer;

impl Wire {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let hub = runtime.block_on(async {
            // In a program without Rust's `main`, such as a fuzzer, SIGPIPE ends the process when it writes to a
            // closed connection, unless the signal is handled.
            let _heard = signal(SignalKind::pipe()).expect("a signal that can be caught");
            TestHub::start().await
        });
        Self { runtime, hub, connection: None }
    }

    pub(super) fn hub(&self) -> &TestHub {
        &self.hub
    }

    /// Runs a future on the hub's runtime.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Sends a request, with `head` containing all lines except the length, and checks the rules that apply to
    /// every answer.
    pub(super) fn ask(&mut self, head: &[u8], body: &[u8]) -> Reply {
        let mut request = head.to_vec();
        request.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes());
        request.extend(body);
        let address = self.hub.address();
        let idle_connection = self.connection.take();
        let (reply, connection) = self.runtime.block_on(async {
            // The hub may have closed an idle connection; a new one must be answered.
            if let Some(idle_connection) = idle_connection
                && let Some(answered) = exchange(idle_connection, &request).await
            {
                return answered;
            }
            let fresh = TcpStream::connect(address).await.expect("a connection");
            let answered = exchange(fresh, &request).await;
            answered.unwrap_or_else(|| panic!("closed without an answer: {:?}", text(&request)))
        });
        self.connection = connection;
        reply.check(&request);
        reply
    }
}

/// The answer, and the connection if it can be reused; `None` if it was closed before an answer.
async fn exchange(mut connection: TcpStream, request: &[u8]) -> Option<(Reply, Option<TcpStream>)> {
    let is_get = request.starts_with(b"GET ");
    let exchange = async {
        connection.write_all(request).await.ok()?;
        let mut bytes = Vec::new();
        loop {
            if let Some((reply, whole)) = parse(&bytes, request.starts_with(b"HEAD ")) {
                if whole
                    || (reply.is_stream() && (reply.body.contains("\n\n") || bytes.ends_with(b"0\r\n\r\n")))
                {
                    let again = whole && reply.header("connection") != Some("close");
                    return Some((reply, again.then_some(connection)));
                }
                if is_get && reply.is_stream() {
                    let _ = tokio::time::timeout(FIRST_EVENT, connection.read_buf(&mut bytes)).await;
                    return Some((parse(&bytes, false).map_or(reply, |(reply, _)| reply), None));
                }
            }
            if connection.read_buf(&mut bytes).await.ok()? == 0 {
                assert!(bytes.is_empty(), "half an answer to {:?}: {:?}", text(request), text(&bytes));
                return None;
            }
        }
    };
    let answered = tokio::time::timeout(TIMEOUT, exchange).await;
    answered.unwrap_or_else(|_| panic!("no answer in time to {:?}", text(request)))
}

/// The data so far, and whether the answer is complete.
fn parse(bytes: &[u8], is_head: bool) -> Option<(Reply, bool)> {
    let (mut reply, start) = RawAnswer::parse_head(bytes)?;
    let rest = &bytes[start..];
    if is_head {
        return Some((reply, true));
    }
    if reply.is_stream() {
        reply.body = text(rest);
        return Some((reply, false));
    }
    let length = if reply.status == 304 { 0 } else { reply.length() };
    if let Some(body) = rest.get(..length) {
        reply.body = String::from_utf8(body.to_vec()).expect("a body in UTF-8");
    }
    Some((reply, rest.len() >= length))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl RawAnswer {
    pub(super) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The data of a stream's complete events. The lines between chunks are no fields of events.
    pub(super) fn events(&self) -> Vec<Value> {
        messages_of(&self.body)
    }

    /// Every answer has a request id and is not an internal error, and every refusal has a reason.
    fn check(&self, request: &[u8]) {
        let refused = |why: &str| panic!("{why}: {self:?} to {:?}", text(request));
        if !(200..500).contains(&self.status) {
            refused("a status that no request should get");
        }
        if self.header("x-request-id").is_none() {
            refused("no request id");
        }
        // The record of a call also shows an internal error.
        if self.body.contains("\"plexus/error\":{\"code\":\"internal\"") {
            refused("a fault in a call");
        }
        let is_head = request.starts_with(b"HEAD ");
        // The stateless revision refuses the methods of sessions with a status only.
        let only_allow = self.status == 405 && self.header("allow").is_some() && self.body.is_empty();
        if self.status < 400 || only_allow || is_head {
            return;
        }
        let body = self.json();
        let envelope = body["code"].is_string() && body["request_id"].is_string();
        let error = body["jsonrpc"] == "2.0" && body["error"]["code"].is_i64();
        let says = body["message"].is_string() || body["error"]["message"].is_string();
        if !(says && (envelope || error)) {
            refused("an error in an unknown format");
        }
    }
}
