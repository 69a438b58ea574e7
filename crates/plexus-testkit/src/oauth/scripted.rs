//! An authorization server with scripted faults, and with events that are too rare to wait for.
//!
//! It asks for no consent: opening its page is the decision. A refresh token is valid once; a second use revokes
//! the grant with `invalid_grant`, as good servers do.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_lc_rs::digest;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::TokenValidation;

type Fields = HashMap<String, String>;

/// A fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuthorityFault {
    #[default]
    None,
    /// Its metadata names another issuer.
    WrongMetadataIssuer,
    /// Its responses name another issuer.
    WrongResponseIssuer,
    /// Its responses name no issuer, although its metadata promises it.
    MissingResponseIssuer,
    /// Its responses have the state of another login.
    WrongState,
    /// Its metadata lacks PKCE.
    NoPkce,
    /// It does not support registration.
    NoRegistration,
    /// Its token endpoint is not encrypted.
    PlainHttpTokenEndpoint,
}

/// How the next refresh requests are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefreshHandling {
    Answered,
    /// Answered with this status and an unreadable body.
    Failing(u16),
    /// Refused with an error that echoes the request.
    Echoing,
    /// Delayed before they are processed.
    DelayedBefore,
    /// Processed, with the response delayed.
    DelayedAfter,
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct ScriptedAuthority {
    state: Arc<AuthorityState>,
    _server_task: JoinSet<()>,
}

#[derive(Debug)]
struct AuthorityState {
    address: SocketAddr,
    fault: AuthorityFault,
    records: Mutex<AuthorityRecords>,
    valid_tokens: Arc<Mutex<HashSet<String>>>,
    /// Signals that a refresh request is delayed; `released` counts how often the delayed ones were released.
    delayed: Notify,
    released: watch::Sender<u64>,
}

#[derive(Debug)]
struct AuthorityRecords {
    /// The authorization requests by code.
    codes: HashMap<String, Fields>,
    refresh: HashSet<String>,
    refresh_handling: RefreshHandling,
    /// Whether code exchanges are delayed.
    code_exchanges_delayed: bool,
    /// Number of tokens to issue that no resource server accepts.
    stale_tokens: u64,
    token_requests: Vec<Fields>,
    revoked: Vec<String>,
    issued: u64,
}

impl ScriptedAuthority {
    pub async fn start() -> Self {
        Self::with_fault(AuthorityFault::None).await
    }

    pub async fn with_fault(fault: AuthorityFault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(AuthorityState {
            address,
            fault,
            records: Mutex::new(AuthorityRecords {
                codes: HashMap::new(),
                refresh: HashSet::new(),
                refresh_handling: RefreshHandling::Answered,
                code_exchanges_delayed: false,
                stale_tokens: 0,
                token_requests: vec![],
                revoked: vec![],
                issued: 0,
            }),
            valid_tokens: Arc::default(),
            delayed: Notify::new(),
            released: watch::Sender::new(0),
        });
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .route("/register", post(register))
            .with_state(state.clone());
        let mut server_task = JoinSet::new();
        server_task.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { state, _server_task: server_task }
    }

    pub fn issuer(&self) -> String {
        self.state.url("")
    }

    /// Token validation that accepts its tokens.
    pub fn token_validation(&self) -> TokenValidation {
        TokenValidation::ValidTokens(self.state.valid_tokens.clone())
    }

    /// The forms of all token requests with this grant type.
    pub fn token_requests(&self, grant: &str) -> Vec<HashMap<String, String>> {
        let records = self.state.records();
        records
            .token_requests
            .iter()
            .filter(|form| form.get("grant_type").is_some_and(|kind| kind == grant))
            .cloned()
            .collect()
    }

    /// Invalidates all access tokens.
    pub fn expire_access(&self) {
        self.state.valid_tokens.lock().expect("no panic").clear();
    }

    /// Answers every refresh request with this status.
    pub fn fail_refreshes(&self, status: u16) {
        self.state.records().refresh_handling = RefreshHandling::Failing(status);
    }

    /// Refuses every refresh request with an error that echoes it.
    pub fn echo_refreshes(&self) {
        self.state.records().refresh_handling = RefreshHandling::Echoing;
    }

    /// Makes the next tokens ones that no resource server accepts.
    pub fn issue_stale_tokens(&self, tokens: u64) {
        self.state.records().stale_tokens = tokens;
    }

    /// The revoked tokens.
    pub fn revoked(&self) -> Vec<String> {
        self.state.records().revoked.clone()
    }

    /// Delays code exchanges.
    pub fn delay_code_exchanges(&self) {
        self.state.records().code_exchanges_delayed = true;
    }

    /// Delays refresh requests: before they are processed, or before the response.
    pub fn delay_refreshes(&self, done: bool) {
        self.state.records().refresh_handling =
            if done { RefreshHandling::DelayedAfter } else { RefreshHandling::DelayedBefore };
    }

    /// Answers refresh requests and code exchanges from now on, including the delayed ones.
    pub fn resume_token_requests(&self) {
        {
            let mut records = self.state.records();
            (records.refresh_handling, records.code_exchanges_delayed) = (RefreshHandling::Answered, false);
        }
        self.state.released.send_modify(|count| *count += 1);
    }

    /// Returns when a refresh request or a code exchange is delayed.
    pub async fn refresh_is_delayed(&self) {
        self.state.delayed.notified().await;
    }
}

impl AuthorityState {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn records(&self) -> MutexGuard<'_, AuthorityRecords> {
        self.records.lock().expect("no panic")
    }

    /// Issues new tokens.
    fn issue_tokens(&self, records: &mut AuthorityRecords) -> Value {
        records.issued += 1;
        let (access, refresh) = (format!("access-{}", records.issued), format!("refresh-{}", records.issued));
        match records.stale_tokens {
            0 => {
                self.valid_tokens.lock().expect("no panic").insert(access.clone());
            }
            stale_tokens => records.stale_tokens = stale_tokens - 1,
        }
        records.refresh.insert(refresh.clone());
        json!({ "access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh })
    }

    fn redeem(&self, form: &Fields) -> Option<Value> {
        let mut records = self.records();
        let authorization = records.codes.remove(form.get("code")?)?;
        let proof = digest::digest(&digest::SHA256, form.get("code_verifier")?.as_bytes());
        let is_same = ["client_id", "redirect_uri", "resource"]
            .iter()
            .all(|name| form.get(*name) == authorization.get(*name));
        let is_proven =
            authorization.get("code_challenge").is_some_and(|c| *c == URL_SAFE_NO_PAD.encode(proof));
        (is_same && is_proven && form.contains_key("resource")).then(|| self.issue_tokens(&mut records))
    }

    fn renew(&self, form: &Fields) -> Option<Value> {
        let mut records = self.records();
        let is_valid = form.get("refresh_token").is_some_and(|token| records.refresh.remove(token));
        if !is_valid {
            // The token was used before: revoke everything derived from it.
            records.refresh.clear();
            self.valid_tokens.lock().expect("no panic").clear();
            return None;
        }
        self.valid_tokens.lock().expect("no panic").clear();
        Some(self.issue_tokens(&mut records))
    }
}

async fn metadata(State(state): State<Arc<AuthorityState>>) -> Json<Value> {
    let fault = state.fault;
    let issuer = if fault == AuthorityFault::WrongMetadataIssuer {
        "https://honest.example".to_owned()
    } else {
        state.url("")
    };
    let token = match fault {
        AuthorityFault::PlainHttpTokenEndpoint => "http://honest.example/token".to_owned(),
        _ => state.url("/token"),
    };
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": state.url("/authorize"),
        "token_endpoint": token,
        "revocation_endpoint": state.url("/revoke"),
        "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["none"],
    });
    if fault != AuthorityFault::NoPkce {
        document["code_challenge_methods_supported"] = json!(["S256"]);
    }
    if fault != AuthorityFault::NoRegistration {
        document["registration_endpoint"] = json!(state.url("/register"));
    }
    Json(document)
}

async fn register(Json(request): Json<Value>) -> (StatusCode, Json<Value>) {
    let client = json!({ "client_id": "a-hub", "redirect_uris": request["redirect_uris"] });
    (StatusCode::CREATED, Json(client))
}

async fn authorize(State(state): State<Arc<AuthorityState>>, Query(request): Query<Fields>) -> Redirect {
    let mut redirect = reqwest::Url::parse(&request["redirect_uri"]).expect("an address");
    let code = format!("code-{}", rand::random::<u64>());
    let login_state =
        if state.fault == AuthorityFault::WrongState { "of-another" } else { &request["state"] };
    redirect.query_pairs_mut().append_pair("code", &code).append_pair("state", login_state);
    match state.fault {
        AuthorityFault::MissingResponseIssuer => {}
        AuthorityFault::WrongResponseIssuer => {
            redirect.query_pairs_mut().append_pair("iss", "https://honest.example");
        }
        _ => {
            redirect.query_pairs_mut().append_pair("iss", &state.url(""));
        }
    }
    state.records().codes.insert(code, request);
    Redirect::to(redirect.as_str())
}

fn fields(form: &str) -> Fields {
    let form = reqwest::Url::parse(&format!("http://form/?{form}")).expect("a form");
    form.query_pairs().into_owned().collect()
}

async fn revoke(State(state): State<Arc<AuthorityState>>, form: String) -> StatusCode {
    let token = fields(&form).remove("token").expect("a token");
    state.valid_tokens.lock().expect("no panic").remove(&token);
    let mut records = state.records();
    records.refresh.remove(&token);
    records.revoked.push(token);
    StatusCode::OK
}

async fn token(State(state): State<Arc<AuthorityState>>, form: String) -> Response {
    let form = fields(&form);
    let is_refresh = form.get("grant_type").is_some_and(|kind| kind == "refresh_token");
    let (refresh_handling, code_exchanges_delayed) = {
        let mut records = state.records();
        records.token_requests.push(form.clone());
        (records.refresh_handling, records.code_exchanges_delayed)
    };
    let mut released = state.released.subscribe();
    let mut delayed = async || {
        state.delayed.notify_one();
        let _ = released.changed().await;
    };
    let issued = match (is_refresh, refresh_handling) {
        (false, _) => {
            if code_exchanges_delayed {
                delayed().await;
            }
            state.redeem(&form)
        }
        (true, RefreshHandling::Echoing) => {
            let description = format!("what is wrong with {form:?}");
            let error = json!({ "error": "invalid_request", "error_description": description });
            return (StatusCode::BAD_REQUEST, Json(error)).into_response();
        }
        (true, RefreshHandling::Answered) => state.renew(&form),
        (true, RefreshHandling::Failing(status)) => {
            return StatusCode::from_u16(status).expect("a status").into_response();
        }
        (true, RefreshHandling::DelayedBefore) => {
            delayed().await;
            state.renew(&form)
        }
        (true, RefreshHandling::DelayedAfter) => {
            let issued = state.renew(&form);
            delayed().await;
            issued
        }
    };
    match issued {
        Some(tokens) => Json(tokens).into_response(),
        None => (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response(),
    }
}
