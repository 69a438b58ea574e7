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

use super::Door;

type Fields = HashMap<String, String>;

/// A fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wrong {
    #[default]
    Nothing,
    /// Its metadata names another issuer.
    IssuerOfDocument,
    /// Its responses name another issuer.
    IssuerOfAnswer,
    /// Its responses name no issuer, although its metadata promises it.
    NoIssuerOfAnswer,
    /// Its responses have the state of another login.
    State,
    /// Its metadata lacks PKCE.
    NoPkce,
    /// It does not support registration.
    NoRegistration,
    /// Its token endpoint is not encrypted.
    OpenTokenEndpoint,
}

/// How the next refresh requests are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renewals {
    Answered,
    /// Answered with this status and an unreadable body.
    Failing(u16),
    /// Refused with an error that echoes the request.
    Echoing,
    /// Delayed before they are processed.
    HeldBefore,
    /// Processed, with the response delayed.
    HeldAfter,
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct ScriptedAuthority {
    inside: Arc<Inside>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Inside {
    address: SocketAddr,
    wrong: Wrong,
    state: Mutex<Book>,
    good: Arc<Mutex<HashSet<String>>>,
    /// Signals that a refresh request is delayed; `released` counts how often the delayed ones were released.
    held: Notify,
    released: watch::Sender<u64>,
}

#[derive(Debug)]
struct Book {
    /// The authorization requests by code.
    codes: HashMap<String, Fields>,
    refresh: HashSet<String>,
    renewals: Renewals,
    /// Whether code exchanges are delayed.
    codes_held: bool,
    /// Number of tokens to issue that no resource server accepts.
    stale: u64,
    asked: Vec<Fields>,
    revoked: Vec<String>,
    given: u64,
}

impl ScriptedAuthority {
    pub async fn start() -> Self {
        Self::that_does(Wrong::Nothing).await
    }

    pub async fn that_does(wrong: Wrong) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let inside = Arc::new(Inside {
            address,
            wrong,
            state: Mutex::new(Book {
                codes: HashMap::new(),
                refresh: HashSet::new(),
                renewals: Renewals::Answered,
                codes_held: false,
                stale: 0,
                asked: vec![],
                revoked: vec![],
                given: 0,
            }),
            good: Arc::default(),
            held: Notify::new(),
            released: watch::Sender::new(0),
        });
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(document))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .route("/register", post(register))
            .with_state(inside.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { inside, _serving: serving }
    }

    pub fn issuer(&self) -> String {
        self.inside.url("")
    }

    /// Token validation that accepts its tokens.
    pub fn door(&self) -> Door {
        Door::Knows(self.inside.good.clone())
    }

    /// The forms of all token requests with this grant type.
    pub fn asked(&self, grant: &str) -> Vec<HashMap<String, String>> {
        let book = self.inside.book();
        book.asked
            .iter()
            .filter(|form| form.get("grant_type").is_some_and(|kind| kind == grant))
            .cloned()
            .collect()
    }

    /// Invalidates all access tokens.
    pub fn expire_access(&self) {
        self.inside.good.lock().expect("no panic").clear();
    }

    /// Answers every refresh request with this status.
    pub fn fail_renewals(&self, status: u16) {
        self.inside.book().renewals = Renewals::Failing(status);
    }

    /// Refuses every refresh request with an error that echoes it.
    pub fn echo_renewals(&self) {
        self.inside.book().renewals = Renewals::Echoing;
    }

    /// Makes the next tokens ones that no resource server accepts.
    pub fn give_stale(&self, tokens: u64) {
        self.inside.book().stale = tokens;
    }

    /// The revoked tokens.
    pub fn revoked(&self) -> Vec<String> {
        self.inside.book().revoked.clone()
    }

    /// Delays code exchanges.
    pub fn hold_codes(&self) {
        self.inside.book().codes_held = true;
    }

    /// Delays refresh requests: before they are processed, or before the response.
    pub fn hold_renewals(&self, done: bool) {
        self.inside.book().renewals = if done { Renewals::HeldAfter } else { Renewals::HeldBefore };
    }

    /// Answers refresh requests and code exchanges from now on, including the delayed ones.
    pub fn answer_renewals(&self) {
        {
            let mut book = self.inside.book();
            (book.renewals, book.codes_held) = (Renewals::Answered, false);
        }
        self.inside.released.send_modify(|times| *times += 1);
    }

    /// Returns when a refresh request or a code exchange is delayed.
    pub async fn renewal_is_held(&self) {
        self.inside.held.notified().await;
    }
}

impl Inside {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.state.lock().expect("no panic")
    }

    /// Issues new tokens.
    fn give(&self, book: &mut Book) -> Value {
        book.given += 1;
        let (access, refresh) = (format!("access-{}", book.given), format!("refresh-{}", book.given));
        match book.stale {
            0 => {
                self.good.lock().expect("no panic").insert(access.clone());
            }
            stale => book.stale = stale - 1,
        }
        book.refresh.insert(refresh.clone());
        json!({ "access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh })
    }

    fn redeem(&self, form: &Fields) -> Option<Value> {
        let mut book = self.book();
        let asked = book.codes.remove(form.get("code")?)?;
        let proof = digest::digest(&digest::SHA256, form.get("code_verifier")?.as_bytes());
        let same =
            ["client_id", "redirect_uri", "resource"].iter().all(|name| form.get(*name) == asked.get(*name));
        let proven = asked.get("code_challenge").is_some_and(|c| *c == URL_SAFE_NO_PAD.encode(proof));
        (same && proven && form.contains_key("resource")).then(|| self.give(&mut book))
    }

    fn renew(&self, form: &Fields) -> Option<Value> {
        let mut book = self.book();
        let known = form.get("refresh_token").is_some_and(|token| book.refresh.remove(token));
        if !known {
            // The token was used before: revoke everything derived from it.
            book.refresh.clear();
            self.good.lock().expect("no panic").clear();
            return None;
        }
        self.good.lock().expect("no panic").clear();
        Some(self.give(&mut book))
    }
}

async fn document(State(inside): State<Arc<Inside>>) -> Json<Value> {
    let wrong = inside.wrong;
    let issuer =
        if wrong == Wrong::IssuerOfDocument { "https://honest.example".to_owned() } else { inside.url("") };
    let token = match wrong {
        Wrong::OpenTokenEndpoint => "http://honest.example/token".to_owned(),
        _ => inside.url("/token"),
    };
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": inside.url("/authorize"),
        "token_endpoint": token,
        "revocation_endpoint": inside.url("/revoke"),
        "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["none"],
    });
    if wrong != Wrong::NoPkce {
        document["code_challenge_methods_supported"] = json!(["S256"]);
    }
    if wrong != Wrong::NoRegistration {
        document["registration_endpoint"] = json!(inside.url("/register"));
    }
    Json(document)
}

async fn register(Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    let client = json!({ "client_id": "a-hub", "redirect_uris": asked["redirect_uris"] });
    (StatusCode::CREATED, Json(client))
}

async fn authorize(State(inside): State<Arc<Inside>>, Query(asked): Query<Fields>) -> Redirect {
    let mut back = reqwest::Url::parse(&asked["redirect_uri"]).expect("an address");
    let code = format!("code-{}", rand::random::<u64>());
    let state = if inside.wrong == Wrong::State { "of-another" } else { &asked["state"] };
    back.query_pairs_mut().append_pair("code", &code).append_pair("state", state);
    match inside.wrong {
        Wrong::NoIssuerOfAnswer => {}
        Wrong::IssuerOfAnswer => {
            back.query_pairs_mut().append_pair("iss", "https://honest.example");
        }
        _ => {
            back.query_pairs_mut().append_pair("iss", &inside.url(""));
        }
    }
    inside.book().codes.insert(code, asked);
    Redirect::to(back.as_str())
}

fn fields(form: &str) -> Fields {
    let form = reqwest::Url::parse(&format!("http://form/?{form}")).expect("a form");
    form.query_pairs().into_owned().collect()
}

async fn revoke(State(inside): State<Arc<Inside>>, form: String) -> StatusCode {
    let token = fields(&form).remove("token").expect("a token");
    inside.good.lock().expect("no panic").remove(&token);
    let mut book = inside.book();
    book.refresh.remove(&token);
    book.revoked.push(token);
    StatusCode::OK
}

async fn token(State(inside): State<Arc<Inside>>, form: String) -> Response {
    let form = fields(&form);
    let renews = form.get("grant_type").is_some_and(|kind| kind == "refresh_token");
    let (renewals, codes_held) = {
        let mut book = inside.book();
        book.asked.push(form.clone());
        (book.renewals, book.codes_held)
    };
    let mut released = inside.released.subscribe();
    let mut held = async || {
        inside.held.notify_one();
        let _ = released.changed().await;
    };
    let given = match (renews, renewals) {
        (false, _) => {
            if codes_held {
                held().await;
            }
            inside.redeem(&form)
        }
        (true, Renewals::Echoing) => {
            let more = format!("what is wrong with {form:?}");
            let refused = json!({ "error": "invalid_request", "error_description": more });
            return (StatusCode::BAD_REQUEST, Json(refused)).into_response();
        }
        (true, Renewals::Answered) => inside.renew(&form),
        (true, Renewals::Failing(status)) => {
            return StatusCode::from_u16(status).expect("a status").into_response();
        }
        (true, Renewals::HeldBefore) => {
            held().await;
            inside.renew(&form)
        }
        (true, Renewals::HeldAfter) => {
            let given = inside.renew(&form);
            held().await;
            given
        }
    };
    match given {
        Some(tokens) => Json(tokens).into_response(),
        None => (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response(),
    }
}
