//! One client of the proxy: which revision it speaks, and its session with the hub.
//!
//! A session of the older era is the proxy's to keep: it is opened when the hub is there, and opened again, as the client
//! began it, where the hub knows it no more. The client hears nothing of that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use plexus_mcp::relay::rpc::{Message, Request, RpcError, result_json, text};
use plexus_mcp::relay::{self, Dialect, HubReply, Version, headers};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::hub::{Failure, told};

/// What is said again in a new session, at most.
const MAX_KEPT: usize = 512;

/// What came with a message beside its text.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    /// All headers, where it came with such.
    pub(super) headers: Option<HeaderMap>,
    /// The header of its version.
    pub(super) version: Option<String>,
    /// The header of its conversation.
    pub(super) conversation: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Agreed on with `initialize`.
    version: Option<Version>,
    client: Option<Value>,
    /// How the client began, to begin like that again.
    initialize: Option<Box<RawValue>>,
    session: Option<HeaderValue>,
    /// What a session is told once and keeps in mind, by what it is about.
    kept: BTreeMap<String, Bytes>,
}

/// Held by the write that is under way.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) proxy: Arc<Shared>,
    /// The conversation, where the client names none.
    conversation: String,
    state: Mutex<State>,
    opening: tokio::sync::Mutex<()>,
    /// Writes that may be kept go one after the other: what was sent first is done first, whatever becomes of it.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// The client has left.
    gone: CancellationToken,
    /// Requests that are answered now, by their ids.
    running: Mutex<HashMap<String, CancellationToken>>,
}

impl Agent {
    pub(super) fn new(proxy: Arc<Shared>) -> Arc<Self> {
        let conversation = match &proxy.options.session {
            Some(session) => session.clone(),
            None => uuid::Uuid::now_v7().to_string(),
        };
        Arc::new(Self {
            proxy,
            conversation,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            writing: Arc::default(),
            gone: CancellationToken::new(),
            running: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client of a message speaks.
    pub(super) fn dialect(&self, message: &Message<'_>, given: &Given) -> Dialect {
        if relay::is_modern(message, given.version.as_deref()) {
            return Dialect::Modern;
        }
        let said = given.version.as_deref().and_then(Version::parse);
        Dialect::Session(said.or(self.state().version).unwrap_or(Version::V2025_03_26))
    }

    /// The conversation that a call is part of.
    pub(super) fn conversation(&self, meta: &Map<String, Value>, given: &Given) -> String {
        let named = relay::conversation(meta).or(given.conversation.as_deref());
        named.unwrap_or(&self.conversation).to_owned()
    }

    /// `clientInfo`, as the client said it.
    pub(super) fn client(&self, meta: Option<&RawValue>) -> Option<Value> {
        relay::client_info(meta).or_else(|| self.state().client.clone())
    }

    /// Counts a request as running until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, id: &RawValue) -> Running {
        let token = CancellationToken::new();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id.get().to_owned(), token.clone());
        Running { agent: self.clone(), id: id.get().to_owned(), token }
    }

    /// The client does not want the answer to a request any more.
    pub(super) fn cancel(&self, id: &RawValue) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = running.get(id.get()) {
            token.cancel();
        }
    }

    /// The turn of a write, after all that came before it.
    pub(super) async fn turn(&self) -> Turn {
        self.writing.clone().lock_owned().await
    }

    /// Sends a message to the hub and waits for the head of the answer.
    pub(super) async fn forward(
        &self,
        message: &Message<'_>,
        body: &Bytes,
        given: &Given,
        patience: Duration,
    ) -> Result<HubReply, Failure> {
        let sent = tokio::time::timeout(patience, self.send(message, body, given)).await;
        sent.unwrap_or_else(|_| Err(self.proxy.hub.noted(Failure::Late(patience))))
    }

    async fn send(&self, message: &Message<'_>, body: &Bytes, given: &Given) -> Result<HubReply, Failure> {
        let dialect = self.dialect(message, given);
        let version = match dialect {
            Dialect::Modern => given.version.clone(),
            Dialect::Session(version) => Some(version.to_string()),
        };
        let mut headers = relay::message_headers(message, version.as_deref());
        self.name_conversation(&mut headers, given);
        if dialect == Dialect::Modern {
            if let Message::Request(request) = message {
                self.repeat_arguments(request, &mut headers);
            }
            return self.proxy.hub.mcp(&Method::POST, headers, body).await;
        }
        self.in_session(&Method::POST, headers, body).await
    }

    fn name_conversation(&self, headers: &mut HeaderMap, given: &Given) {
        let named = given.conversation.as_deref().unwrap_or(&self.conversation);
        if let Ok(named) = HeaderValue::from_str(named) {
            headers.insert(headers::CONVERSATION, named);
        }
        if let Some(folder) = &self.proxy.options.workspace {
            headers.insert(headers::FOLDER, relay::header_text(folder));
        }
    }

    fn repeat_arguments(&self, request: &Request<'_>, headers: &mut HeaderMap) {
        let tool = text(request.params.name).filter(|_| request.method == "tools/call");
        let Some(schema) = tool.and_then(|tool| self.proxy.lists.repeating(&tool)) else { return };
        let arguments = request.params.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok());
        relay::add_argument_headers(&schema, &arguments.unwrap_or_default(), headers);
    }

    /// A request of the session; one that the hub does not know any more is opened again first.
    async fn in_session(
        &self,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, Failure> {
        let mut session = self.session(None).await?;
        headers.insert(headers::SESSION_ID, session.clone());
        let reply = self.proxy.hub.mcp(method, headers.clone(), body).await?;
        if reply.status() != StatusCode::NOT_FOUND {
            return Ok(reply);
        }
        session = self.session(Some(&session)).await?;
        headers.insert(headers::SESSION_ID, session);
        self.proxy.hub.mcp(method, headers, body).await
    }

    /// The session with the hub, another one than `lost`.
    async fn session(&self, lost: Option<&HeaderValue>) -> Result<HeaderValue, Failure> {
        let known = || self.state().session.clone().filter(|session| Some(session) != lost);
        if let Some(session) = known() {
            return Ok(session);
        }
        let _opening = self.opening.lock().await;
        if let Some(session) = known() {
            return Ok(session);
        }
        match self.open().await? {
            Ok((session, _)) => Ok(session),
            Err(refused) => Err(Failure::Refused(format!("the hub opens no session: {refused}"))),
        }
    }

    /// Opens a session as the client began it. Its result as text, or what the hub has against it.
    async fn open(&self) -> Result<Result<(HeaderValue, Box<RawValue>), String>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<Box<RawValue>>,
            error: Option<Box<RawValue>>,
        }
        let hub = &self.proxy.hub;
        let params = self.state().initialize.as_ref().map(|raw| raw.get().to_owned());
        let Some(params) = params else { return Ok(Err("it was not begun with initialize".to_owned())) };
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"plexus\",\"method\":\"initialize\",\"params\":{params}}}"
        );
        let reply = hub.mcp(&Method::POST, self.plain(None), &body.into()).await?;
        let session = reply.header(headers::SESSION_ID.as_str()).cloned();
        if reply.status().is_server_error() || reply.status() == StatusCode::TOO_MANY_REQUESTS {
            return Err(Failure::Away { why: told(reply).await, sent: false });
        }
        if !reply.is_json() {
            return Ok(Err(told(reply).await));
        }
        let answer = reply.whole().await.map_err(|error| hub.noted(error.into()))?;
        let answer: Answer = match serde_json::from_slice(&answer) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(format!("its answer cannot be read: {error}"))),
        };
        let (Some(mut session), Some(result)) = (session, answer.result) else {
            return Ok(Err(answer
                .error
                .map_or_else(|| "it gives none".to_owned(), |error| error.get().to_owned())));
        };
        session.set_sensitive(true);
        let version = version_of(&result);
        let begun = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        let kept: Vec<Bytes> = {
            let mut state = self.state();
            state.version = version.or(state.version);
            std::iter::once(begun).chain(state.kept.values().cloned()).collect()
        };
        for message in kept {
            let mut headers = self.plain(version);
            headers.insert(headers::SESSION_ID, session.clone());
            let reply = hub.mcp(&Method::POST, headers, &message).await?;
            reply.whole().await.map_err(|error| hub.noted(error.into()))?;
        }
        self.state().session = Some(session.clone());
        Ok(Ok((session, result)))
    }

    /// The headers of a message that the proxy itself sends.
    fn plain(&self, version: Option<Version>) -> HeaderMap {
        let message = Message::Response { id: RawValue::NULL, outcome: Ok(RawValue::NULL) };
        let mut headers = relay::message_headers(&message, version.map(Version::as_str));
        self.name_conversation(&mut headers, &Given::default());
        headers
    }

    /// The answer to `initialize`: the hub's where it is there, else the same from what is known.
    pub(super) async fn initialize(&self, request: &Request<'_>, params: &RawValue) -> Bytes {
        let asked = text(request.params.protocol_version).unwrap_or_default();
        {
            let mut state = self.state();
            state.initialize = Some(params.to_owned());
            state.client = request.params.client_info.and_then(|raw| serde_json::from_str(raw.get()).ok());
            state.session = None;
        }
        let opened = async {
            let _opening = self.opening.lock().await;
            self.open().await
        };
        let lists = &self.proxy.lists;
        let failure = match tokio::time::timeout(self.proxy.options.timing.greet, opened).await {
            Ok(Ok(Ok((_, result)))) => {
                lists.note_instructions(&instructions_of(&result));
                return result_json(request.id, result.get()).into();
            }
            Ok(Ok(Err(refused))) if serde_json::from_str::<Map<String, Value>>(&refused).is_ok() => {
                let id = request.id.get();
                return format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{refused}}}").into();
            }
            Ok(Ok(Err(refused))) => Failure::Refused(refused),
            Ok(Err(failure)) => failure,
            Err(_) => self.proxy.hub.noted(Failure::Late(self.proxy.options.timing.greet)),
        };
        if self.proxy.options.plain {
            return failed(request.id, &failure, Dialect::Session(Version::V2025_11_25));
        }
        tracing::debug!(%failure, "the proxy says itself who the hub is");
        let (version, json) = relay::initialize_result(request.id, &asked, &lists.instructions());
        self.state().version = Some(version);
        json.into()
    }

    /// Keeps in mind what a new session has to be told again.
    pub(super) fn keep(&self, request: &Request<'_>, body: &Bytes) {
        let about = match &*request.method {
            "logging/setLevel" => "level".to_owned(),
            "resources/subscribe" | "resources/unsubscribe" => {
                format!("resource {}", request.params.uri.map_or("", RawValue::get))
            }
            _ => return,
        };
        let mut state = self.state();
        if request.method == "resources/unsubscribe" {
            state.kept.remove(&about);
        } else if state.kept.len() < MAX_KEPT {
            state.kept.insert(about, body.clone());
        }
    }

    /// A stream of the session, from where it was left.
    pub(super) async fn listen(&self, last: Option<&str>) -> Result<HubReply, Failure> {
        let mut headers = self.plain(self.state().version);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(headers::LAST_EVENT_ID, last);
        }
        self.in_session(&Method::GET, headers, &Bytes::new()).await
    }

    /// Whether the client may send several messages as one.
    pub(super) fn has_batches(&self, given: &Given) -> bool {
        let version = match &given.version {
            Some(version) => Version::parse(version),
            None => self.state().version,
        };
        version.is_some_and(Version::has_batches)
    }

    /// Whether the client has begun a session.
    pub(super) fn has_begun(&self) -> bool {
        self.state().initialize.is_some()
    }

    /// Cancelled when nothing more is told to the client.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Ends the session with the hub, if there is one.
    pub(super) async fn end(&self) {
        self.gone.cancel();
        let Some(session) = self.state().session.take() else { return };
        let mut headers = self.plain(self.state().version);
        headers.insert(headers::SESSION_ID, session);
        let nothing = Bytes::new();
        let ended = self.proxy.hub.mcp(&Method::DELETE, headers, &nothing);
        // The hub forgets sessions that nobody uses by itself.
        let _ = tokio::time::timeout(self.proxy.options.timing.greet, ended).await;
    }
}

/// Ends with the request.
#[derive(Debug)]
pub(super) struct Running {
    agent: Arc<Agent>,
    id: String,
    token: CancellationToken,
}

impl Running {
    pub(super) fn cancelled(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agent.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

fn member(result: &RawValue, name: &str) -> String {
    let result: Map<String, Value> = serde_json::from_str(result.get()).unwrap_or_default();
    result.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn version_of(result: &RawValue) -> Option<Version> {
    Version::parse(&member(result, "protocolVersion"))
}

pub(super) fn instructions_of(result: &RawValue) -> String {
    member(result, "instructions")
}

/// Session era: a code that clients take for "try again".
const AWAY: i32 = -32002;
/// The stateless revision gives that one another meaning; this one it leaves free.
const AWAY_STATELESS: i32 = -32010;
/// The credential is not taken.
pub(super) const REFUSED: i32 = -32001;

/// What a client is told of a request that the hub did not answer.
pub(super) fn failed(id: &RawValue, failure: &Failure, dialect: Dialect) -> Bytes {
    let (code, retryable) = match (failure, dialect) {
        (Failure::Refused(_), _) => (REFUSED, false),
        (_, Dialect::Session(_)) => (AWAY, true),
        (_, Dialect::Modern) => (AWAY_STATELESS, true),
    };
    let what = match failure {
        Failure::Refused(why) => why.clone(),
        failure if failure.nothing_ran() => {
            format!("The hub is away, and nothing was done. Try again later. ({failure})")
        }
        failure => format!(
            "The hub was lost before it answered. Nobody knows whether this was done: look before you try again. ({failure})"
        ),
    };
    let data = json!({ "retryable": retryable, "may_have_run": !failure.nothing_ran() });
    Bytes::from(RpcError::new(StatusCode::OK, code, what).with_data(data).with_id(id).to_json())
}
