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
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    head: String,
    /// Null if the body is empty.
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The method of the message, or that of HTTP.
    pub(super) fn what(&self) -> &str {
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
type Script = Arc<dyn Fn(&Asked) -> Steps + Send + Sync>;

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
        End::WithIt => vec![Step::Send([head, &piece, last].concat().into_bytes())],
        End::Later => {
            vec![Step::Send([head, &piece].concat().into_bytes()), Step::Send(last.as_bytes().to_vec())]
        }
    }
}

/// When a stream ends after its last message.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    WithIt,
    /// Separately, as from a server that notices late that it is done.
    Later,
}

pub(super) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// The result of a well-behaved server.
pub(super) fn result(asked: &Asked, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result })
}

pub(super) fn said(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// The answers of a session server to everything but a call; it has one tool and no stream.
pub(super) fn session_era(asked: &Asked) -> Steps {
    match asked.what() {
        "initialize" => {
            let welcome = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "scripted", "version": "1" },
            });
            json_answer(200, "mcp-session-id: s-1\r\n", &result(asked, &welcome))
        }
        "server/discover" => answer(400, "", "what is that?"),
        "tools/list" => {
            let tools = json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] });
            json_answer(200, "", &result(asked, &tools))
        }
        "GET" => answer(405, "", ""),
        "DELETE" => answer(200, "", ""),
        "ping" => json_answer(200, "", &result(asked, &json!({}))),
        "tools/call" => json_answer(200, "", &result(asked, &said("scripted"))),
        _ => answer(202, "", ""),
    }
}

/// The answers of a stateless server to everything.
pub(super) fn stateless_era(asked: &Asked) -> Steps {
    let mut complete = match asked.what() {
        "server/discover" => json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "tools/call" => said("scripted"),
        _ => {
            return json_answer(
                404,
                "",
                &json!({ "jsonrpc": "2.0", "id": asked.body["id"],
            "error": { "code": -32601, "message": "not here" } }),
            );
        }
    };
    complete["resultType"] = json!("complete");
    json_answer(200, "", &result(asked, &complete))
}

/// Listens until it is dropped.
pub(super) struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    news: Arc<Notify>,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    _accepting: JoinSet<()>,
}

impl Scripted {
    pub(super) async fn start(script: impl Fn(&Asked) -> Steps + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let news: Arc<Notify> = Arc::default();
        let script: Script = Arc::new(script);
        let mut accepting = JoinSet::new();
        let connections: Arc<AtomicUsize> = Arc::default();
        let closed: Arc<AtomicUsize> = Arc::default();
        let (kept, told) = (asked.clone(), news.clone());
        let (counted, ended) = (connections.clone(), closed.clone());
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                let serve = serve(stream, script.clone(), kept.clone(), told.clone());
                let (ended, told) = (ended.clone(), told.clone());
                serving.spawn(async move {
                    serve.await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    told.notify_one();
                });
            }
        });
        Self { address, asked, news, connections, closed, _accepting: accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Waits until it has closed all of its connections.
    pub(super) async fn has_closed_all(&self) {
        super::soon(async {
            while self.closed.load(Ordering::SeqCst) < self.connections() {
                self.news.notified().await;
            }
        })
        .await;
    }

    /// Waits until this was requested that often.
    pub(super) async fn is_asked(&self, what: &str, times: usize) {
        super::soon(async {
            while self.count(what) < times {
                self.news.notified().await;
            }
        })
        .await;
    }

    /// How often this was requested.
    pub(super) fn count(&self, what: &str) -> usize {
        self.asked().iter().filter(|asked| asked.what() == what).count()
    }

    /// Waits until a request matches.
    pub(super) async fn sees(&self, wanted: impl Fn(&Asked) -> bool) -> Asked {
        super::soon(async {
            loop {
                if let Some(found) = self.asked().into_iter().find(|asked| wanted(asked)) {
                    return found;
                }
                self.news.notified().await;
            }
        })
        .await
    }
}

async fn serve(mut stream: TcpStream, script: Script, kept: Arc<Mutex<Vec<Asked>>>, told: Arc<Notify>) {
    let mut unread = Vec::new();
    while let Some(asked) = read(&mut stream, &mut unread).await {
        kept.lock().unwrap().push(asked.clone());
        told.notify_one();
        for step in script(&asked) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(word) => word.notified().await,
                Step::Stall => std::future::pending().await,
                Step::Endlessly(bytes) => while stream.write_all(&bytes).await.is_ok() {},
                Step::Close => return,
            }
        }
        if asked.head.contains("connection: close") {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Asked> {
    loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(unread[..end].to_vec()).unwrap();
            let mut asked = Asked { method: String::new(), path: String::new(), head, body: Value::Null };
            let length: usize = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
            if unread.len() >= end + 4 + length {
                let rest = unread.split_off(end + 4 + length);
                asked.body = serde_json::from_slice(&unread[end + 4..]).unwrap_or_default();
                *unread = rest;
                let line = asked.head.lines().next().unwrap().to_owned();
                let mut words = line.split(' ');
                asked.method = words.next().unwrap().to_owned();
                asked.path = words.next().unwrap().to_owned();
                return Some(asked);
            }
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}
