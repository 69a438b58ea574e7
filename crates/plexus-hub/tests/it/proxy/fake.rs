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
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) bearer: String,
    pub(super) session: Option<String>,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// Answers the request with this result.
    pub(super) fn result(&self, result: Value) -> Said {
        Said::json(200, json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result }))
    }
}

/// An answer of the fake hub.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Body(u16, &'static str, String),
    /// Never answers.
    Nothing,
    /// Sends the beginning of an answer.
    Half,
}

impl Said {
    pub(super) fn json(status: u16, body: Value) -> Self {
        Self::Body(status, "application/json", body.to_string())
    }

    fn response(self) -> Response {
        let (status, kind, body) = match self {
            Self::Body(status, kind, body) => (status, kind, Body::from(body)),
            Self::Half => {
                let pieces = futures_util::stream::iter([
                    Ok(Bytes::from_static(b"{\"jsonrpc\":")),
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                ]);
                (200, "application/json", Body::from_stream(pieces))
            }
            Self::Nothing => panic!("this answer is never rendered"),
        };
        let response = Response::builder().status(status).header("content-type", kind);
        response.body(body).unwrap()
    }
}

type Answering = Arc<dyn Fn(&Asked) -> Said + Send + Sync>;

#[derive(Clone)]
struct Script {
    asked: Arc<Mutex<Vec<Asked>>>,
    answering: Arc<Mutex<Answering>>,
}

pub(super) struct FakeHub {
    address: SocketAddr,
    script: Script,
    _serving: JoinSet<()>,
}

impl FakeHub {
    pub(super) async fn start(answering: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering: Answering = Arc::new(answering);
        let script = Script { asked: Arc::default(), answering: Arc::new(Mutex::new(answering)) };
        let app = axum::Router::new().fallback(answer).with_state(script.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, script, _serving: serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the answers from now on.
    pub(super) fn answer(&self, answering: impl Fn(&Asked) -> Said + Send + Sync + 'static) {
        *self.script.answering.lock().unwrap() = Arc::new(answering);
    }

    /// The received requests with this method.
    pub(super) fn asked(&self, method: &str) -> Vec<Asked> {
        self.script.asked.lock().unwrap().iter().filter(|asked| asked.method() == method).cloned().collect()
    }

    /// The received requests at this path.
    pub(super) fn asked_at(&self, path: &str) -> Vec<Asked> {
        self.script.asked.lock().unwrap().iter().filter(|asked| asked.path == path).cloned().collect()
    }
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let asked = Asked {
        path: head.uri.path().to_owned(),
        bearer: header("authorization").unwrap_or_default(),
        session: header("plexus-session"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    script.asked.lock().unwrap().push(asked.clone());
    let answering = script.answering.lock().unwrap().clone();
    match answering(&asked) {
        Said::Nothing => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            unreachable!("no test waits that long")
        }
        said => said.response(),
    }
}

/// A tool whose writes may be queued.
pub(super) fn note() -> Value {
    let queued = json!({ "type": "object", "properties": { "queued": { "const": true } } });
    json!({
        "name": "note", "description": "Keeps notes.", "inputSchema": { "type": "object" }, "outputSchema": queued,
        "_meta": { "plexus/bufferable": ["add"] },
    })
}

/// A hub with this tool and `tool_call` only; calls are answered by `call`.
pub(super) fn with_note(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync {
    move |asked| match asked.method() {
        "tools/list" => {
            let other =
                json!({ "name": "tool_call", "description": "Calls.", "inputSchema": { "type": "object" } });
            asked.result(json!({ "resultType": "complete", "tools": [note(), other] }))
        }
        "tools/call" => call(asked),
        "initialize" => Said::json(503, json!({ "code": "overloaded", "message": "no sessions now" })),
        _ => Said::json(404, json!({ "code": "not_found", "message": "there is nothing here" })),
    }
}
