//! A fake hub that answers as scripted and records the requests it receives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A received request.
#[derive(Debug, Clone)]
pub(super) struct RecordedRequest {
    pub(super) path: String,
    pub(super) bearer: String,
    pub(super) session: Option<String>,
    pub(super) body: Value,
}

impl RecordedRequest {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Answers the request with this result.
    pub(super) fn result(&self, result: Value) -> FakeResponse {
        FakeResponse::json(200, json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result }))
    }
}

/// An answer of the fake hub.
#[derive(Debug, Clone)]
pub(super) enum FakeResponse {
    Body(u16, &'static str, String),
    /// Never answers.
    NeverSent,
    /// Sends the beginning of an answer.
    Truncated,
}

impl FakeResponse {
    pub(super) fn json(status: u16, body: Value) -> Self {
        Self::Body(status, "application/json", body.to_string())
    }

    fn response(self) -> Response {
        let (status, kind, body) = match self {
            Self::Body(status, kind, body) => (status, kind, Body::from(body)),
            Self::Truncated => {
                let pieces = futures_util::stream::iter([
                    Ok(Bytes::from_static(b"{\"jsonrpc\":")),
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                ]);
                (200, "application/json", Body::from_stream(pieces))
            }
            Self::NeverSent => panic!("this answer is never rendered"),
        };
        let response = Response::builder().status(status).header("content-type", kind);
        response.body(body).unwrap()
    }
}

type AnswerFunction = Arc<dyn Fn(&RecordedRequest) -> FakeResponse + Send + Sync>;

#[derive(Clone)]
struct Script {
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    answer_function: Arc<Mutex<AnswerFunction>>,
}

pub(super) struct FakeHub {
    address: SocketAddr,
    script: Script,
    _server_task: JoinSet<()>,
}

impl FakeHub {
    pub(super) async fn start(
        answer_function: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer_function: AnswerFunction = Arc::new(answer_function);
        let script =
            Script { requests: Arc::default(), answer_function: Arc::new(Mutex::new(answer_function)) };
        let app = axum::Router::new().fallback(answer).with_state(script.clone());
        let mut server_task = JoinSet::new();
        server_task.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, script, _server_task: server_task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the answers from now on.
    pub(super) fn answer(
        &self,
        answer_function: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
    ) {
        *self.script.answer_function.lock().unwrap() = Arc::new(answer_function);
    }

    /// The received requests with this method.
    pub(super) fn requests(&self, method: &str) -> Vec<RecordedRequest> {
        self.script
            .requests
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.method() == method)
            .cloned()
            .collect()
    }

    /// The received requests at this path.
    pub(super) fn requests_at(&self, path: &str) -> Vec<RecordedRequest> {
        self.script.requests.lock().unwrap().iter().filter(|request| request.path == path).cloned().collect()
    }
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let request = RecordedRequest {
        path: head.uri.path().to_owned(),
        bearer: header("authorization").unwrap_or_default(),
        session: header("plexus-session"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    script.requests.lock().unwrap().push(request.clone());
    let answer_function = script.answer_function.lock().unwrap().clone();
    match answer_function(&request) {
        FakeResponse::NeverSent => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            unreachable!("no test waits that long")
        }
        response => response.response(),
    }
}

/// A tool whose writes may be queued.
pub(super) fn note_tool() -> Value {
    let queued = json!({ "type": "object", "properties": { "queued": { "const": true } } });
    json!({
        "name": "note", "description": "Keeps notes.", "inputSchema": { "type": "object" }, "outputSchema": queued,
        "_meta": { "plexus/bufferable": ["add"] },
    })
}

/// A hub with this tool and `tool_call` only; calls are answered by `call`.
pub(super) fn with_note_tool(
    call: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
) -> impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync {
    move |request| match request.method() {
        "tools/list" => {
            let other =
                json!({ "name": "tool_call", "description": "Calls.", "inputSchema": { "type": "object" } });
            request.result(json!({ "resultType": "complete", "tools": [note_tool(), other] }))
        }
        "tools/call" => call(request),
        "initialize" => {
            FakeResponse::json(503, json!({ "code": "overloaded", "message": "no sessions now" }))
        }
        _ => FakeResponse::json(404, json!({ "code": "not_found", "message": "there is nothing here" })),
    }
}
