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
pub enum TokenValidation {
    /// By a URL that answers with `active` and `aud`.
    Introspection(String),
    /// By this set of valid tokens.
    ValidTokens(Arc<Mutex<HashSet<String>>>),
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct ProtectedServer {
    address: SocketAddr,
    state: Arc<ProtectedState>,
    _server_task: JoinSet<()>,
}

#[derive(Debug)]
struct ProtectedState {
    address: SocketAddr,
    issuers: Vec<String>,
    /// The resource identifier that it reports, if it differs from its address.
    resource_name: Option<String>,
    validation: TokenValidation,
    fixture: HttpFixture,
    http: reqwest::Client,
    unauthorized_requests: AtomicU64,
    received_tokens: Mutex<Vec<String>>,
    /// The texts of all calls with a valid token.
    call_texts: Mutex<Vec<String>>,
}

impl ProtectedServer {
    pub async fn start(issuer: &str, validation: TokenValidation) -> Self {
        Self::start_as(issuer, validation, None, Eras::Both).await
    }

    /// A server that reports another identifier, or supports only one era.
    pub async fn start_as(
        issuer: &str,
        validation: TokenValidation,
        resource_name: Option<&str>,
        eras: Eras,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(ProtectedState {
            address,
            issuers: vec![issuer.to_owned()],
            resource_name: resource_name.map(str::to_owned),
            validation,
            fixture: Fixture::new().only(eras).start().await,
            http: reqwest::Client::builder().no_proxy().build().expect("an HTTP client"),
            unauthorized_requests: AtomicU64::new(0),
            received_tokens: Mutex::default(),
            call_texts: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(describe))
            .route("/mcp", any(forward_authorized))
            .with_state(state.clone());
        let mut server_task = JoinSet::new();
        server_task.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { address, state, _server_task: server_task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Number of requests without a valid token.
    pub fn unauthorized_requests(&self) -> u64 {
        self.state.unauthorized_requests.load(Ordering::SeqCst)
    }

    /// Every token received in `Authorization`.
    pub fn received_tokens(&self) -> Vec<String> {
        self.state.received_tokens.lock().expect("no panic").clone()
    }

    /// Number of authorized calls with this text.
    pub fn authorized_calls(&self, text: &str) -> usize {
        let all = self.state.call_texts.lock().expect("no panic");
        all.iter().filter(|resource_name| *resource_name == text).count()
    }
}

async fn describe(State(state): State<Arc<ProtectedState>>) -> axum::Json<Value> {
    let own_url = format!("http://{}/mcp", state.address);
    axum::Json(json!({
        "resource": state.resource_name.as_ref().unwrap_or(&own_url),
        "authorization_servers": state.issuers,
        "scopes_supported": ["tools"],
    }))
}

async fn forward_authorized(State(state): State<Arc<ProtectedState>>, request: Request) -> Response<Body> {
    if !state.has_valid_token(request.headers()).await {
        state.unauthorized_requests.fetch_add(1, Ordering::SeqCst);
        let metadata_url = format!("http://{}/.well-known/oauth-protected-resource/mcp", state.address);
        let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{metadata_url}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    state.record_call(&body);
    let mut headers = parts.headers;
    for own_url in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH] {
        headers.remove(own_url);
    }
    let forwarded = state.http.request(parts.method, state.fixture.url()).headers(headers).body(body);
    let Ok(answer) = forwarded.send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            response = response.header(name, value);
        }
    }
    response.body(Body::from_stream(answer.bytes_stream())).expect("an answer")
}

impl ProtectedState {
    async fn has_valid_token(&self, headers: &HeaderMap) -> bool {
        let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.received_tokens.lock().expect("no panic").extend(token.map(str::to_owned));
        let Some(token) = token.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
        match &self.validation {
            TokenValidation::ValidTokens(tokens) => tokens.lock().expect("no panic").contains(token),
            TokenValidation::Introspection(url) => {
                let response = self.http.get(url).bearer_auth(token).send().await.expect("an answer");
                let token_info: Value = response.json().await.expect("JSON");
                let own_url = format!("http://{}/mcp", self.address);
                token_info["active"] == true
                    && token_info["aud"] == *self.resource_name.as_ref().unwrap_or(&own_url)
            }
        }
    }

    fn record_call(&self, body: &Bytes) {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if message["method"] == "tools/call" {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
            self.call_texts.lock().expect("no panic").push(text.to_owned());
        }
    }
}
