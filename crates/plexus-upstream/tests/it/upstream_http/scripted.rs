//! A server that answers as a test scripts it, byte by byte, and records its requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct ReceivedRequest {
    pub(super) method: String,
    pub(super) path: String,
    head: String,
    /// Null if the body is empty.
    pub(super) body: Value,
}

impl ReceivedRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The method of the message, or that of HTTP.
    pub(super) fn message_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.method)
    }
}

/// A step on the connection of a request.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Send(Vec<u8>),
    /// Waits for the test.
    Wait(Arc<Notify>),
    /// Keeps the connection open and sends nothing more.
    Stall,
    /// Repeats the same piece until the peer gives up.
    Endlessly(Vec<u8>),
    /// Closes the connection; otherwise the next request may use it.
    Close,
}

pub(super) type Steps = Vec<Step>;
type Script = Arc<dyn Fn(&ReceivedRequest) -> Steps + Send + Sync>;

/// An answer with a body and its length.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Steps {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n");
    vec![Step::Send([head.as_bytes(), body.as_bytes()].concat())]
}

pub(super) fn json_answer(status: u16, headers: &str, body: &Value) -> Steps {
    answer(status, &format!("content-type: application/json\r\n{headers}"), &body.to_string())
}

/// The head of an event stream that ends with the connection.
pub(super) fn stream(events: &str) -> Steps {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    vec![Step::Send([head.as_bytes(), events.as_bytes()].concat())]
}

/// An event stream in pieces, after which the connection can be reused.
pub(super) fn chunked_stream(events: &str, end: End) -> Steps {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = format!("{:x}\r\n{events}\r\n", events.len());
    let last = "0\r\n\r\n";
    match end {
        End::WithMessage => vec![Step::Send([head, &piece, last].concat().into_bytes())],
        End::Later => {
            vec![Step::Send([head, &piece].concat().into_bytes()), Step::Send(last.as_bytes().to_vec())]
        }
    }
}

/// When a stream ends after its last message.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    WithMessage,
    /// Separately, as from a server that notices late that it is done.
    Later,
}

pub(super) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// The result of a well-behaved server.
pub(super) fn result(request: &ReceivedRequest, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result })
}

pub(super) fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// The answers of a session server to everything but a call; it has one tool and no stream.
pub(super) fn session_era(request: &ReceivedRequest) -> Steps {
    match request.message_method() {
        "initialize" => {
            let welcome = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "scripted", "version": "1" },
            });
            json_answer(200, "mcp-session-id: s-1\r\n", &result(request, &welcome))
        }
        "server/discover" => answer(400, "", "what is that?"),
        "tools/list" => {
            let tools = json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] });
            json_answer(200, "", &result(request, &tools))
        }
        "GET" => answer(405, "", ""),
        "DELETE" => answer(200, "", ""),
        "ping" => json_answer(200, "", &result(request, &json!({}))),
        "tools/call" => json_answer(200, "", &result(request, &text_result("scripted"))),
        _ => answer(202, "", ""),
    }
}

/// The answers of a stateless server to everything.
pub(super) fn stateless_era(request: &ReceivedRequest) -> Steps {
    let mut complete = match request.message_method() {
        "server/discover" => json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "tools/call" => text_result("scripted"),
        _ => {
            return json_answer(
                404,
                "",
                &json!({ "jsonrpc": "2.0", "id": request.body["id"],
            "error": { "code": -32601, "message": "not here" } }),
            );
        }
    };
    complete["resultType"] = json!("complete");
    json_answer(200, "", &result(request, &complete))
}

/// Listens until it is dropped.
pub(super) struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    changed: Arc<Notify>,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    _accepting: JoinSet<()>,
}

impl ScriptedServer {
    pub(super) async fn start(script: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let changed: Arc<Notify> = Arc::default();
        let script: Script = Arc::new(script);
        let mut accepting = JoinSet::new();
        let connections: Arc<AtomicUsize> = Arc::default();
        let closed: Arc<AtomicUsize> = Arc::default();
        let (recorded, notify) = (requests.clone(), changed.clone());
        let (counted, ended) = (connections.clone(), closed.clone());
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                let serve = serve(stream, script.clone(), recorded.clone(), notify.clone());
                let (ended, notify) = (ended.clone(), notify.clone());
                serving.spawn(async move {
                    serve.await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    notify.notify_one();
                });
            }
        });
        Self { address, requests, changed, connections, closed, _accepting: accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// The number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until it has closed all of its connections.
    pub(super) async fn wait_until_all_closed(&self) {
        super::in_time(async {
            while self.closed.load(Ordering::SeqCst) < self.connections() {
                self.changed.notified().await;
            }
        })
        .await;
    }

    /// Waits until this was requested that often.
    pub(super) async fn wait_for_requests(&self, method: &str, times: usize) {
        super::in_time(async {
            while self.count(method) < times {
                self.changed.notified().await;
            }
        })
        .await;
    }

    /// How often this was requested.
    pub(super) fn count(&self, method: &str) -> usize {
        self.requests().iter().filter(|request| request.message_method() == method).count()
    }

    /// Waits until a request matches.
    pub(super) async fn wait_for_request(
        &self,
        matches: impl Fn(&ReceivedRequest) -> bool,
    ) -> ReceivedRequest {
        super::in_time(async {
            loop {
                if let Some(request) = self.requests().into_iter().find(|request| matches(request)) {
                    return request;
                }
                self.changed.notified().await;
            }
        })
        .await
    }
}

async fn serve(
    mut stream: TcpStream,
    script: Script,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    changed: Arc<Notify>,
) {
    let mut unread = Vec::new();
    while let Some(request) = read(&mut stream, &mut unread).await {
        requests.lock().unwrap().push(request.clone());
        changed.notify_one();
        for step in script(&request) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(release) => release.notified().await,
                Step::Stall => std::future::pending().await,
                Step::Endlessly(bytes) => while stream.write_all(&bytes).await.is_ok() {},
                Step::Close => return,
            }
        }
        if request.head.contains("connection: close") {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<ReceivedRequest> {
    loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(unread[..end].to_vec()).unwrap();
            let mut request =
                ReceivedRequest { method: String::new(), path: String::new(), head, body: Value::Null };
            let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            if unread.len() >= end + 4 + length {
                let rest = unread.split_off(end + 4 + length);
                request.body = serde_json::from_slice(&unread[end + 4..]).unwrap_or_default();
                *unread = rest;
                let line = request.head.lines().next().unwrap().to_owned();
                let mut words = line.split(' ');
                request.method = words.next().unwrap().to_owned();
                request.path = words.next().unwrap().to_owned();
                return Some(request);
            }
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}
