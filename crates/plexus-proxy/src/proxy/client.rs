//! One client of the proxy: its revision, and its session with the hub.
//!
//! In revisions with sessions, the proxy manages the session with the hub. It opens one when the hub is reachable,
//! and opens another with the client's `initialize` if the hub has lost it. The client does not notice.

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
use super::hub::{HubFailure, error_message};

/// Maximum number of messages repeated in a new session.
const MAX_REPEATED: usize = 512;

/// The transport metadata of a message.
#[derive(Debug, Clone, Default)]
pub(super) struct MessageMeta {
    /// All headers, if it arrived over HTTP.
    pub(super) headers: Option<HeaderMap>,
    /// The protocol version header.
    pub(super) version: Option<String>,
    /// The conversation header.
    pub(super) conversation: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Negotiated with `initialize`.
    version: Option<Version>,
    client: Option<Value>,
    /// The parameters of the client's `initialize`, to open another session.
    initialize: Option<Box<RawValue>>,
    session: Option<HeaderValue>,
    /// Messages that set up a session and are repeated in a new one, by subject.
    repeated: BTreeMap<String, Bytes>,
}

/// Held by the client's write in flight.
pub(super) type WriteTurn = tokio::sync::OwnedMutexGuard<()>;

#[derive(Debug)]
pub(super) struct ProxyClient {
    pub(super) proxy: Arc<Shared>,
    /// The conversation of messages that name none.
    conversation: String,
    state: Mutex<State>,
    opening: tokio::sync::Mutex<()>,
    /// Bufferable writes are sent one at a time, so that they keep their order even if one is queued.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when the client has disconnected.
    disconnected: CancellationToken,
    /// Requests in flight, by id.
    running: Mutex<HashMap<String, CancellationToken>>,
}

impl ProxyClient {
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
            disconnected: CancellationToken::new(),
            running: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The protocol era and version of a message.
    pub(super) fn dialect(&self, message: &Message<'_>, meta: &MessageMeta) -> Dialect {
        if relay::is_modern(message, meta.version.as_deref()) {
            return Dialect::Modern;
        }
        let version = meta.version.as_deref().and_then(Version::parse);
        Dialect::Session(version.or(self.state().version).unwrap_or(Version::V2025_03_26))
    }

    /// The conversation of a call.
    pub(super) fn conversation(&self, call_meta: &Map<String, Value>, meta: &MessageMeta) -> String {
        let named = relay::conversation(call_meta).or(meta.conversation.as_deref());
        named.unwrap_or(&self.conversation).to_owned()
    }

    /// The client's `clientInfo`.
    pub(super) fn client(&self, meta: Option<&RawValue>) -> Option<Value> {
        relay::client_info(meta).or_else(|| self.state().client.clone())
    }

    /// Registers a request as running until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, id: &RawValue) -> RunningRequest {
        let token = CancellationToken::new();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id.get().to_owned(), token.clone());
        RunningRequest { client: self.clone(), id: id.get().to_owned(), token }
    }

    /// Cancels a running request of the client.
    pub(super) fn cancel(&self, id: &RawValue) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = running.get(id.get()) {
            token.cancel();
        }
    }

    /// Waits for the client's earlier writes.
    pub(super) async fn write_turn(&self) -> WriteTurn {
        self.writing.clone().lock_owned().await
    }

    /// Sends a message to the hub and waits for the head of the answer.
    pub(super) async fn forward(
        &self,
        message: &Message<'_>,
        body: &Bytes,
        meta: &MessageMeta,
        time_limit: Duration,
    ) -> Result<HubReply, HubFailure> {
        let sent = tokio::time::timeout(time_limit, self.send(message, body, meta)).await;
        sent.unwrap_or_else(|_| Err(self.proxy.hub.record_failure(HubFailure::TimedOut(time_limit))))
    }

    async fn send(
        &self,
        message: &Message<'_>,
        body: &Bytes,
        meta: &MessageMeta,
    ) -> Result<HubReply, HubFailure> {
        let dialect = self.dialect(message, meta);
        let version = match dialect {
            Dialect::Modern => meta.version.clone(),
            Dialect::Session(version) => Some(version.to_string()),
        };
        let mut headers = relay::message_headers(message, version.as_deref());
        self.name_conversation(&mut headers, meta);
        if dialect == Dialect::Modern {
            if let Message::Request(request) = message {
                self.repeat_arguments(request, &mut headers);
            }
            return self.proxy.hub.mcp(&Method::POST, headers, body).await;
        }
        self.in_session(&Method::POST, headers, body).await
    }

    fn name_conversation(&self, headers: &mut HeaderMap, meta: &MessageMeta) {
        let named = meta.conversation.as_deref().unwrap_or(&self.conversation);
        if let Ok(named) = HeaderValue::from_str(named) {
            headers.insert(headers::CONVERSATION, named);
        }
        if let Some(folder) = &self.proxy.options.workspace {
            headers.insert(headers::FOLDER, relay::header_text(folder));
        }
    }

    fn repeat_arguments(&self, request: &Request<'_>, headers: &mut HeaderMap) {
        let tool = text(request.params.name).filter(|_| request.method == "tools/call");
        let Some(schema) = tool.and_then(|tool| self.proxy.tools.header_arguments_schema(&tool)) else {
            return;
        };
        let arguments = request.params.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok());
        relay::add_argument_headers(&schema, &arguments.unwrap_or_default(), headers);
    }

    /// Sends a request in the session, in a new one if the hub has lost it.
    async fn in_session(
        &self,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
    ) -> Result<HubReply, HubFailure> {
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

    /// The session with the hub, other than `lost`; opened if necessary.
    async fn session(&self, lost: Option<&HeaderValue>) -> Result<HeaderValue, HubFailure> {
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
            Err(refused) => Err(HubFailure::Refused(format!("the hub refused to open a session: {refused}"))),
        }
    }

    /// Opens a session with the client's `initialize`. Returns its id and result, or why the hub refused it.
    async fn open(&self) -> Result<Result<(HeaderValue, Box<RawValue>), String>, HubFailure> {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<Box<RawValue>>,
            error: Option<Box<RawValue>>,
        }
        let hub = &self.proxy.hub;
        let params = self.state().initialize.as_ref().map(|raw| raw.get().to_owned());
        let Some(params) = params else { return Ok(Err("the client has not sent initialize".to_owned())) };
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"plexus\",\"method\":\"initialize\",\"params\":{params}}}"
        );
        let reply = hub.mcp(&Method::POST, self.own_headers(None), &body.into()).await?;
        let session = reply.header(headers::SESSION_ID.as_str()).cloned();
        if reply.status().is_server_error() || reply.status() == StatusCode::TOO_MANY_REQUESTS {
            return Err(HubFailure::Away { why: error_message(reply).await, sent: false });
        }
        if !reply.is_json() {
            return Ok(Err(error_message(reply).await));
        }
        let answer = reply.bytes().await.map_err(|error| hub.record_failure(error.into()))?;
        let answer: Answer = match serde_json::from_slice(&answer) {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(format!("cannot read its answer: {error}"))),
        };
        let (Some(mut session), Some(result)) = (session, answer.result) else {
            return Ok(Err(answer
                .error
                .map_or_else(|| "its answer has no session".to_owned(), |error| error.get().to_owned())));
        };
        session.set_sensitive(true);
        let version = version_of(&result);
        let initialized =
            Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        let setup: Vec<Bytes> = {
            let mut state = self.state();
            state.version = version.or(state.version);
            std::iter::once(initialized).chain(state.repeated.values().cloned()).collect()
        };
        for message in setup {
            let mut headers = self.own_headers(version);
            headers.insert(headers::SESSION_ID, session.clone());
            let reply = hub.mcp(&Method::POST, headers, &message).await?;
            reply.bytes().await.map_err(|error| hub.record_failure(error.into()))?;
        }
        self.state().session = Some(session.clone());
        Ok(Ok((session, result)))
    }

    /// The headers of a message sent by the proxy itself.
    fn own_headers(&self, version: Option<Version>) -> HeaderMap {
        let message = Message::Response { id: RawValue::NULL, outcome: Ok(RawValue::NULL) };
        let mut headers = relay::message_headers(&message, version.map(Version::as_str));
        self.name_conversation(&mut headers, &MessageMeta::default());
        headers
    }

    /// The answer to `initialize`: the hub's if it is reachable, otherwise one from the last known data.
    pub(super) async fn initialize(&self, request: &Request<'_>, params: &RawValue) -> Bytes {
        let version = text(request.params.protocol_version).unwrap_or_default();
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
        let tools = &self.proxy.tools;
        let failure = match tokio::time::timeout(self.proxy.options.timing.handshake, opened).await {
            Ok(Ok(Ok((_, result)))) => {
                tools.note_instructions(&instructions_of(&result));
                return result_json(request.id, result.get()).into();
            }
            Ok(Ok(Err(refused))) if serde_json::from_str::<Map<String, Value>>(&refused).is_ok() => {
                let id = request.id.get();
                return format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{refused}}}").into();
            }
            Ok(Ok(Err(refused))) => HubFailure::Refused(refused),
            Ok(Err(failure)) => failure,
            Err(_) => {
                self.proxy.hub.record_failure(HubFailure::TimedOut(self.proxy.options.timing.handshake))
            }
        };
        if self.proxy.options.passthrough {
            return failed(request.id, &failure, Dialect::Session(Version::V2025_11_25));
        }
        tracing::debug!(%failure, "answering initialize without the hub");
        let (version, json) = relay::initialize_result(request.id, &version, &tools.instructions());
        self.state().version = Some(version);
        json.into()
    }

    /// Remembers a request that must be repeated in a new session.
    pub(super) fn remember_setup(&self, request: &Request<'_>, body: &Bytes) {
        let subject = match &*request.method {
            "logging/setLevel" => "level".to_owned(),
            "resources/subscribe" | "resources/unsubscribe" => {
                format!("resource {}", request.params.uri.map_or("", RawValue::get))
            }
            _ => return,
        };
        let mut state = self.state();
        if request.method == "resources/unsubscribe" {
            state.repeated.remove(&subject);
        } else if state.repeated.len() < MAX_REPEATED {
            state.repeated.insert(subject, body.clone());
        }
    }

    /// Opens a stream of the session, after the event `last`.
    pub(super) async fn listen(&self, last: Option<&str>) -> Result<HubReply, HubFailure> {
        let mut headers = self.own_headers(self.state().version);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(headers::LAST_EVENT_ID, last);
        }
        self.in_session(&Method::GET, headers, &Bytes::new()).await
    }

    /// Whether the client may send batches.
    pub(super) fn has_batches(&self, meta: &MessageMeta) -> bool {
        let version = match &meta.version {
            Some(version) => Version::parse(version),
            None => self.state().version,
        };
        version.is_some_and(Version::has_batches)
    }

    /// Whether the client has sent `initialize`.
    pub(super) fn has_initialized(&self) -> bool {
        self.state().initialize.is_some()
    }

    /// Cancelled when the client has disconnected.
    pub(super) fn disconnected(&self) -> &CancellationToken {
        &self.disconnected
    }

    /// Ends the session with the hub, if there is one.
    pub(super) async fn end(&self) {
        self.disconnected.cancel();
        let Some(session) = self.state().session.take() else { return };
        let mut headers = self.own_headers(self.state().version);
        headers.insert(headers::SESSION_ID, session);
        let nothing = Bytes::new();
        let ended = self.proxy.hub.mcp(&Method::DELETE, headers, &nothing);
        // Best effort: the hub deletes unused sessions itself.
        let _ = tokio::time::timeout(self.proxy.options.timing.handshake, ended).await;
    }
}

/// A request in flight; unregistered on drop.
#[derive(Debug)]
pub(super) struct RunningRequest {
    client: Arc<ProxyClient>,
    id: String,
    token: CancellationToken,
}

impl RunningRequest {
    pub(super) fn cancelled(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.client.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
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

/// Error code in revisions with sessions, which clients understand as "try again".
const HUB_AWAY_CODE: i32 = -32002;
/// Error code in the stateless revision, which uses the other one for something else.
const HUB_AWAY_CODE_STATELESS: i32 = -32010;
/// Error code for a refused credential.
pub(super) const CREDENTIAL_REFUSED_CODE: i32 = -32001;

/// The error for a request that the hub did not answer.
pub(super) fn failed(id: &RawValue, failure: &HubFailure, dialect: Dialect) -> Bytes {
    let (code, retryable) = match (failure, dialect) {
        (HubFailure::Refused(_), _) => (CREDENTIAL_REFUSED_CODE, false),
        (_, Dialect::Session(_)) => (HUB_AWAY_CODE, true),
        (_, Dialect::Modern) => (HUB_AWAY_CODE_STATELESS, true),
    };
    let message = match failure {
        HubFailure::Refused(why) => why.clone(),
        failure if failure.nothing_ran() => {
            format!("The hub is away, and nothing was executed. Try again later. ({failure})")
        }
        failure => format!(
            "The connection to the hub was lost before it answered, so the request may have been executed: check \
             before you retry. ({failure})"
        ),
    };
    let data = json!({ "retryable": retryable, "may_have_run": !failure.nothing_ran() });
    Bytes::from(RpcError::new(StatusCode::OK, code, message).with_data(data).with_id(id).to_json())
}
