//! The fixture server behind token authentication.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::{any, get};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::fixture::{Eras, Fixture, HttpFixture};

/// How tokens are validated.
#[derive(Debug, Clone)]
pub enum Door {
    /// By a URL that answers with `active` and `aud`.
    Asks(String),
    /// By this set of valid tokens.
    Knows(Arc<Mutex<HashSet<String>>>),
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Protected {
    address: SocketAddr,
    inside: Arc<Inside>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Inside {
    address: SocketAddr,
    issuers: Vec<String>,
    /// The resource identifier that it reports, if it differs from its address.
    called: Option<String>,
    door: Door,
    fixture: HttpFixture,
    http: reqwest::Client,
    turned_away: AtomicU64,
    shown: Mutex<Vec<String>>,
    /// The texts of all calls with a valid token.
    called_with: Mutex<Vec<String>>,
}

impl Protected {
    pub async fn start(issuer: &str, door: Door) -> Self {
        Self::start_as(issuer, door, None, Eras::Both).await
    }

    /// A server that reports another identifier, or supports only one era.
    pub async fn start_as(issuer: &str, door: Door, called: Option<&str>, eras: Eras) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let inside = Arc::new(Inside {
            address,
            issuers: vec![issuer.to_owned()],
            called: called.map(str::to_owned),
            door,
            fixture: Fixture::new().only(eras).start().await,
            http: reqwest::Client::builder().no_proxy().build().expect("an HTTP client"),
            turned_away: AtomicU64::new(0),
            shown: Mutex::default(),
            called_with: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(describe))
            .route("/mcp", any(knock))
            .with_state(inside.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, inside, _serving: serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Number of requests without a valid token.
    pub fn turned_away(&self) -> u64 {
        self.inside.turned_away.load(Ordering::SeqCst)
    }

    /// Every token received in `Authorization`.
    pub fn shown(&self) -> Vec<String> {
        self.inside.shown.lock().expect("no panic").clone()
    }

    /// Number of authorized calls with this text.
    pub fn calls_with(&self, text: &str) -> usize {
        let all = self.inside.called_with.lock().expect("no panic");
        all.iter().filter(|called| *called == text).count()
    }
}

async fn describe(State(inside): State<Arc<Inside>>) -> axum::Json<Value> {
    let own = format!("http://{}/mcp", inside.address);
    axum::Json(json!({
        "resource": inside.called.as_ref().unwrap_or(&own),
        "authorization_servers": inside.issuers,
        "scopes_supported": ["tools"],
    }))
}

async fn knock(State(inside): State<Arc<Inside>>, request: Request) -> Response<Body> {
    if !inside.is_good(request.headers()).await {
        inside.turned_away.fetch_add(1, Ordering::SeqCst);
        let place = format!("http://{}/.well-known/oauth-protected-resource/mcp", inside.address);
        let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{place}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    inside.note(&body);
    let mut headers = parts.headers;
    for own in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH] {
        headers.remove(own);
    }
    let passed = inside.http.request(parts.method, inside.fixture.url()).headers(headers).body(body);
    let Ok(answer) = passed.send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            response = response.header(name, value);
        }
    }
    response.body(Body::from_stream(answer.bytes_stream())).expect("an answer")
}

impl Inside {
    async fn is_good(&self, headers: &HeaderMap) -> bool {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.shown.lock().expect("no panic").extend(token.map(str::to_owned));
        let Some(token) = token.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
        match &self.door {
            Door::Knows(good) => good.lock().expect("no panic").contains(token),
            Door::Asks(url) => {
                let asked = self.http.get(url).bearer_auth(token).send().await.expect("an answer");
                let said: Value = asked.json().await.expect("JSON");
                let own = format!("http://{}/mcp", self.address);
                said["active"] == true && said["aud"] == *self.called.as_ref().unwrap_or(&own)
            }
        }
    }

    fn note(&self, body: &Bytes) {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if message["method"] == "tools/call" {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
            self.called_with.lock().expect("no panic").push(text.to_owned());
        }
    }
}
