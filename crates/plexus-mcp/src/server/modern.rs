//! The stateless revision, 2026-07-28: every request says all there is to know about it.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use plexus_tools::{CallReply, Progress, ProgressSink};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::call::ProgressWriter;
use super::headers::{self, Routing};
use super::list::Rendered;
use super::rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND, Message, Request, RpcError, UNSUPPORTED_VERSION};
use super::version::{Era, Features, MODERN, SUPPORTED};
use super::welcome::Welcome;
use super::{State, call, identity, sse};

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// How long a list may be taken from a cache.
const TTL_MS: u64 = 30_000;
/// Progress that waits to be sent; more is dropped, for it is only ever the newest that matters.
const PROGRESS_QUEUE: usize = 64;

/// Whether a message is of this revision, or of a revision we do not know, which is answered here.
pub(super) fn is_modern(message: &Message<'_>, header: Option<&Era>) -> bool {
    let (method, params) = match message {
        Message::Request(request) => (&*request.method, &request.params),
        Message::Notification(notification) => (&*notification.method, &notification.params),
        Message::Response => ("", &rpc::Params::default()),
    };
    match header {
        Some(Era::Modern | Era::Unknown(_)) => true,
        Some(Era::Session(_)) | None => {
            method == "server/discover"
                || meta_version(params).is_some_and(|version| {
                    // A session-era revision named in both places is just that.
                    header.is_none_or(|header| *header != Era::parse(&version))
                })
        }
    }
}

fn meta_version(params: &rpc::Params<'_>) -> Option<String> {
    // Cheap for the many requests that have no `_meta` or one without a version.
    let raw = params.meta.filter(|raw| raw.get().contains(META_VERSION))?;
    let meta: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    meta.get(META_VERSION)?.as_str().map(str::to_owned)
}

pub(super) async fn post(
    state: &Arc<State>,
    headers: &HeaderMap,
    message: Message<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    match message {
        Message::Request(request) => {
            let id = request.id;
            answer(state, headers, request, principal).await.map_err(|error| error.with_id(id))
        }
        // This revision defines none over HTTP; a stream is cancelled by closing it.
        Message::Notification(_) => Ok(rpc::accepted()),
        Message::Response => {
            Err(RpcError::invalid_request("this server asks nothing, so there is nothing to answer"))
        }
    }
}

async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let meta = required_meta(&request)?;
    let version = meta[META_VERSION].as_str().unwrap_or_default();
    let name = call::routed_name(&request.method, &request.params);
    headers::check_routing(headers, &Routing { version, method: &request.method, name })?;
    if version != MODERN {
        return Err(unsupported(version));
    }
    check_optional_meta(&meta)?;
    match &*request.method {
        "server/discover" => Ok(complete(request.id, &discover(state, &principal))),
        "tools/list" => {
            let registry = state.dispatcher.registry();
            let tools =
                state.lists.rendered(registry, &principal, Features::ALL).page(request.params.cursor)?;
            Ok(complete(request.id, &format!("{tools},\"ttlMs\":{TTL_MS},\"cacheScope\":\"private\"")))
        }
        "tools/call" => call_tool(state, headers, &request, &meta, principal).await,
        "subscriptions/listen" => listen(state, headers, &request, principal),
        method => {
            let shown: String = method.chars().take(100).collect();
            Err(RpcError::new(StatusCode::NOT_FOUND, METHOD_NOT_FOUND, format!("Method not found: {shown}")))
        }
    }
}

/// A revision that is none of ours.
pub(super) fn unsupported(version: &str) -> RpcError {
    RpcError::new(StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(json!({ "supported": SUPPORTED, "requested": version }))
}

fn required_meta(request: &Request<'_>) -> Result<Map<String, Value>, RpcError> {
    let missing =
        |what: &str| RpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, format!("params._meta {what}"));
    if request.params.meta.is_none() {
        return Err(missing("is required"));
    }
    let meta = call::meta(&request.params)
        .map_err(|error| RpcError::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, error.message))?;
    if !meta.get(META_VERSION).is_some_and(Value::is_string) {
        return Err(missing(&format!("must have {META_VERSION:?}, a string")));
    }
    if !meta.get(META_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(missing(&format!("must have {META_CAPABILITIES:?}, an object")));
    }
    Ok(meta)
}

fn check_optional_meta(meta: &Map<String, Value>) -> Result<(), RpcError> {
    match meta.get(META_LOG_LEVEL) {
        Some(level) if !level.as_str().is_some_and(|level| LOG_LEVELS.contains(&level)) => {
            Err(RpcError::invalid_params(format!(
                "_meta[{META_LOG_LEVEL:?}] must be one of {}",
                LOG_LEVELS.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

/// A result that is complete, from its own members.
fn complete_json(id: &RawValue, members: &str, meta: &str) -> String {
    let comma = if meta.is_empty() { "" } else { "," };
    let server = super::session::server_info();
    let result = format!(
        "{{\"resultType\":\"complete\",{members},\"_meta\":{{\"{META_SERVER}\":{server}{comma}{meta}}}}}"
    );
    rpc::result_json(id, &result)
}

fn complete(id: &RawValue, members: &str) -> Response {
    rpc::json_response(StatusCode::OK, complete_json(id, members, ""))
}

fn discover(state: &State, principal: &Principal) -> String {
    format!(
        "\"supportedVersions\":{},\"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\"instructions\":{},\
         \"ttlMs\":{TTL_MS},\"cacheScope\":\"private\"",
        json!(SUPPORTED),
        json!(state.instructions(principal)),
    )
}

async fn call_tool(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    meta: &Map<String, Value>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let client = meta.get(META_CLIENT).and_then(|client| client["name"].as_str());
    let session = identity::session_key(&principal, client, meta, headers, None)?;
    let cancel = CancellationToken::new();
    // Dropped with the response: a client that closes the stream cancels the call.
    let closed = cancel.clone().drop_guard();
    let Some(token) = call::progress_token(meta)? else {
        let call = call::from_params(&request.params, meta, headers, session, cancel, None)?;
        let reply = state.dispatcher.call(principal, call).await;
        drop(closed);
        return Ok(rpc::json_response(StatusCode::OK, call_json(request.id, reply)?));
    };
    let (sender, progress) = mpsc::channel(PROGRESS_QUEUE);
    let sink: ProgressSink = Arc::new(move |progress| {
        let _ = sender.try_send(progress);
    });
    let call = call::from_params(&request.params, meta, headers, session, cancel, Some(sink))?;
    let place = state.streams.enter(&principal)?;
    let dispatcher = state.dispatcher.clone();
    let stream = CallStream {
        welcome: Welcome::new(state.authenticator.clone(), principal.clone(), place),
        id: request.id.to_owned(),
        // The body is read after the request was answered, and still belongs to it.
        reply: Box::pin(async move { dispatcher.call(principal, call).await }.in_current_span()),
        progress,
        writer: ProgressWriter::new(token),
        ticks: sse::ticks(state.options.keep_alive),
        done: false,
        _closed: closed,
    };
    Ok(sse::response(stream::unfold(stream, |mut stream| async { Some((stream.next().await?, stream)) })))
}

fn call_json(id: &RawValue, reply: CallReply) -> Result<String, RpcError> {
    let meta = call::reply_meta(&reply);
    Ok(complete_json(id, &call::result_members(reply, Features::ALL)?, &meta))
}

/// A call whose progress is told on the way.
struct CallStream {
    welcome: Welcome,
    id: Box<RawValue>,
    reply: futures_util::future::BoxFuture<'static, CallReply>,
    progress: mpsc::Receiver<Progress>,
    writer: ProgressWriter,
    ticks: Interval,
    done: bool,
    _closed: tokio_util::sync::DropGuard,
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                Some(progress) = self.progress.recv() => {
                    if let Some(json) = self.writer.json(&progress) {
                        return Some(sse::event(None, &json));
                    }
                }
                reply = &mut self.reply => {
                    self.done = true;
                    let json = call_json(&self.id, reply).unwrap_or_else(|error| error.with_id(&self.id).to_json());
                    return Some(sse::event(None, &json));
                }
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }
}

/// `subscriptions/listen`: an acknowledgement, then a notification whenever the list that this
/// caller sees has changed, then a result when the hub stops.
fn listen(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    if !headers::accepts(headers, "text/event-stream") {
        let message = "subscriptions/listen is answered as text/event-stream";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, rpc::INVALID_REQUEST, message));
    }
    let wanted: Option<Map<String, Value>> =
        request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(wanted) = wanted else {
        let message = "params.notifications must be an object of the notifications wanted";
        return Err(RpcError::invalid_params(message).with_status(StatusCode::BAD_REQUEST));
    };
    let place = state.streams.enter(&principal)?;
    let tools = wanted.get("toolsListChanged") == Some(&Value::Bool(true));
    let registry = state.dispatcher.registry();
    let subscription = Subscription {
        id: request.id.to_owned(),
        tools,
        // Before the first look at the list, so that no change falls in between.
        versions: registry.versions(),
        seen: state.lists.rendered(registry, &principal, Features::ALL),
        welcome: Welcome::new(state.authenticator.clone(), principal, place),
        state: state.clone(),
        ticks: sse::ticks(state.options.keep_alive),
        phase: Phase::Acknowledge,
    };
    Ok(sse::response(stream::unfold(subscription, |mut subscription| async {
        Some((subscription.next().await?, subscription))
    })))
}

enum Phase {
    Acknowledge,
    Follow,
    Over,
}

struct Subscription {
    id: Box<RawValue>,
    tools: bool,
    versions: tokio::sync::watch::Receiver<u64>,
    seen: Arc<Rendered>,
    welcome: Welcome,
    state: Arc<State>,
    ticks: Interval,
    phase: Phase,
}

impl Subscription {
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Acknowledge => {
                self.phase = Phase::Follow;
                let honoured = if self.tools {
                    ",\"notifications\":{\"toolsListChanged\":true}"
                } else {
                    ",\"notifications\":{}"
                };
                Some(self.notification("notifications/subscriptions/acknowledged", honoured))
            }
            Phase::Follow => self.follow().await,
            Phase::Over => None,
        }
    }

    async fn follow(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                () = self.state.stopping.cancelled() => {
                    self.phase = Phase::Over;
                    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", self.id.get());
                    let result = format!("{{\"resultType\":\"complete\",\"_meta\":{meta}}}");
                    return Some(sse::event(None, &rpc::result_json(&self.id, &result)));
                }
                Ok(()) = self.versions.changed(), if self.tools => {
                    let registry = self.state.dispatcher.registry();
                    let now = self.state.lists.rendered(registry, self.welcome.principal(), Features::ALL);
                    let same = now.same_as(&self.seen);
                    self.seen = now;
                    if !same {
                        return Some(self.notification("notifications/tools/list_changed", ""));
                    }
                }
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    fn notification(&self, method: &str, more: &str) -> Bytes {
        let id = self.id.get();
        let json = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{id}}}{more}}}}}"
        );
        sse::event(None, &json)
    }
}
