//! An authorization server that does as it is told: what no good one does, and what happens too rarely to wait for.
//!
//! It asks nobody: whoever opens its page has decided. A refresh token is good for once, and what comes of one that is
//! used a second time is `invalid_grant` for good, as the good ones do it.

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

/// One thing that it does wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wrong {
    #[default]
    Nothing,
    /// Its document says that it is somebody else.
    IssuerOfDocument,
    /// Its answers say that they are of somebody else.
    IssuerOfAnswer,
    /// Its answers do not say whose they are, although its document says that they do.
    NoIssuerOfAnswer,
    /// Its answers are to another login.
    State,
    /// It does not say that it protects codes.
    NoPkce,
    /// It lets nobody register.
    NoRegistration,
    /// It gives out tokens at an address that everybody can read along with.
    OpenTokenEndpoint,
}

/// What becomes of the next requests to renew access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renewals {
    Answered,
    /// Answered with this status and nothing that can be read.
    Failing(u16),
    /// Refused with all that they have in them.
    Echoing,
    /// Held before anything is done about them.
    HeldBefore,
    /// Carried out, and the answer held.
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
    /// A request to renew access is held; how often all that were may go on.
    held: Notify,
    released: watch::Sender<u64>,
}

#[derive(Debug)]
struct Book {
    /// By code: what was asked for.
    codes: HashMap<String, Fields>,
    refresh: HashSet<String>,
    renewals: Renewals,
    /// Codes are held before they are redeemed.
    codes_held: bool,
    /// So many tokens are given that no door knows.
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

    /// A door that knows its tokens.
    pub fn door(&self) -> Door {
        Door::Knows(self.inside.good.clone())
    }

    /// The forms of all requests for access of this kind.
    pub fn asked(&self, grant: &str) -> Vec<HashMap<String, String>> {
        let book = self.inside.book();
        book.asked
            .iter()
            .filter(|form| form.get("grant_type").is_some_and(|kind| kind == grant))
            .cloned()
            .collect()
    }

    /// No access token that it gave is good any more.
    pub fn expire_access(&self) {
        self.inside.good.lock().expect("no panic").clear();
    }

    /// Every request to renew access is answered with this status.
    pub fn fail_renewals(&self, status: u16) {
        self.inside.book().renewals = Renewals::Failing(status);
    }

    /// Every request to renew access is refused with what it has in it.
    pub fn echo_renewals(&self) {
        self.inside.book().renewals = Renewals::Echoing;
    }

    /// The next so many tokens are ones that no door knows.
    pub fn give_stale(&self, tokens: u64) {
        self.inside.book().stale = tokens;
    }

    /// The tokens that it was told to end.
    pub fn revoked(&self) -> Vec<String> {
        self.inside.book().revoked.clone()
    }

    /// Codes are held before they are redeemed.
    pub fn hold_codes(&self) {
        self.inside.book().codes_held = true;
    }

    /// Requests to renew access are held: before anything is done about them, or when all is done but the answer.
    pub fn hold_renewals(&self, done: bool) {
        self.inside.book().renewals = if done { Renewals::HeldAfter } else { Renewals::HeldBefore };
    }

    /// And from now on they are answered, those that are held too; and so are codes.
    pub fn answer_renewals(&self) {
        {
            let mut book = self.inside.book();
            (book.renewals, book.codes_held) = (Renewals::Answered, false);
        }
        self.inside.released.send_modify(|times| *times += 1);
    }

    /// Returns when a request to renew access, or with a code, is held.
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

    /// New tokens.
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
            // Somebody else has it: nothing that came of it is good any more.
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
