//! The session era, 2024-11-05 to 2025-11-25: `initialize` opens a session, a header names it.
//!
//! A session belongs to the principal that opened it and to nobody else. It is stored, so it
//! outlives a restart of the hub; one that is unknown, ended or another's is answered with the 404
//! that makes a client initialise again.

mod directory;
mod get;
mod stream;

use std::sync::Arc;

use axum::response::Response;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_auth::Principal;
use plexus_kit::Stage;
use plexus_tools::{CallReply, ProgressSink};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::call::ProgressWriter;
use super::rpc::{self, METHOD_NOT_FOUND, Message, Notification, Request, RpcError};
use super::version::Version;
use super::welcome::Welcome;
use super::{State, call, headers, identity};

pub(super) use directory::{McpSession, Sessions};
pub(super) use get::get;

/// Messages in one batch.
const MAX_BATCH: usize = 50;
/// Their answers together, which are held in memory until the client has read them.
const MAX_BATCH_BYTES: usize = 8 << 20;
const PROGRESS_QUEUE: usize = 64;

/// Name and version of this server, as JSON.
pub(super) fn server_info() -> &'static str {
    concat!("{\"name\":\"plexus\",\"title\":\"Plexus\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}")
}

pub(super) async fn post(
    state: &Arc<State>,
    headers: &HeaderMap,
    message: Message<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    match message {
        Message::Request(request) if request.method == "initialize" => {
            initialize(state, &request, principal).await.map_err(|error| error.with_id(request.id))
        }
        Message::Request(request) => {
            let session =
                open(state, headers, &principal).await.map_err(|error| error.with_id(request.id))?;
            match answer_or_stream(state, headers, &session, &request, principal).await {
                Ok(Answer::Json(json)) => Ok(rpc::json_response(StatusCode::OK, json)),
                Ok(Answer::Stream(response)) => Ok(response),
                Err(error) => Err(error.with_id(request.id)),
            }
        }
        Message::Notification(notification) => {
            let session = open(state, headers, &principal).await?;
            notified(&session, &notification);
            Ok(rpc::accepted())
        }
        Message::Response => {
            open(state, headers, &principal).await?;
            Ok(rpc::accepted())
        }
    }
}

/// Several messages at once, in the one revision that has them.
pub(super) async fn post_batch(
    state: &Arc<State>,
    headers: &HeaderMap,
    body: &[u8],
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let session = open(state, headers, &principal).await?;
    if !session.version().has_batches() {
        return Err(RpcError::invalid_request(format!("revision {} has no batches", session.version())));
    }
    let messages = rpc::parse_batch(body)?;
    if messages.is_empty() {
        return Err(RpcError::invalid_request("the batch is empty"));
    }
    if messages.len() > MAX_BATCH {
        return Err(RpcError::invalid_request(format!("a batch has at most {MAX_BATCH} messages")));
    }
    let parsed: Vec<_> = messages.into_iter().map(rpc::message).collect();
    let initializes = |message: &Result<Message<'_>, RpcError>| matches!(message, Ok(Message::Request(request)) if request.method == "initialize");
    if parsed.iter().any(initializes) {
        return Err(RpcError::invalid_request("initialize must not be part of a batch"));
    }
    let answers = parsed.into_iter().map(|message| {
        let (session, principal) = (&session, principal.clone());
        async move {
            match message {
                Ok(Message::Request(request)) => {
                    let json = answer(state, headers, session, &request, principal).await;
                    Some(json.unwrap_or_else(|error| error.with_id(request.id).to_json()))
                }
                Ok(Message::Notification(notification)) => {
                    notified(session, &notification);
                    None
                }
                Ok(Message::Response) => None,
                Err(mut error) => {
                    error.id.get_or_insert_with(|| "null".to_owned());
                    Some(error.to_json())
                }
            }
        }
    });
    let answers: Vec<String> = join_all(answers).await.into_iter().flatten().collect();
    let bytes: usize = answers.iter().map(String::len).sum();
    if bytes > MAX_BATCH_BYTES {
        let message = format!("the answers have {bytes} bytes together; send the requests one by one");
        return Err(RpcError::invalid_request(message));
    }
    if answers.is_empty() {
        return Ok(rpc::accepted());
    }
    Ok(rpc::json_response(StatusCode::OK, format!("[{}]", answers.join(","))))
}

pub(super) async fn delete(
    state: &Arc<State>,
    headers: &HeaderMap,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let session = open(state, headers, &principal).await?;
    state.sessions.end(&session).await?;
    let mut response = rpc::accepted();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The session a request names.
async fn open(
    state: &State,
    headers: &HeaderMap,
    principal: &Principal,
) -> Result<Arc<McpSession>, RpcError> {
    let Some(id) = headers::session_id(headers)? else {
        return Err(RpcError::invalid_request("the header Mcp-Session-Id is missing; begin with initialize"));
    };
    state.sessions.open(id, principal).await
}

async fn initialize(
    state: &State,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let Some(asked) = rpc::text(request.params.protocol_version) else {
        return Err(RpcError::invalid_params("params.protocolVersion must be a string"));
    };
    let version = Version::parse(&asked).unwrap_or(Version::LATEST);
    let client: Map<String, Value> =
        request.params.client_info.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let client = client.get("name").and_then(Value::as_str).unwrap_or("unknown");
    let session = state.sessions.create(&principal, version, client).await?;
    let result = format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\
         \"serverInfo\":{},\"instructions\":{}}}",
        server_info(),
        json!(state.instructions(&principal)),
    );
    let mut response = rpc::json_response(StatusCode::OK, rpc::result_json(request.id, &result));
    if let Ok(id) = HeaderValue::from_str(session.id()) {
        response.headers_mut().insert(headers::SESSION_ID, id);
    }
    Ok(response)
}

fn notified(session: &McpSession, notification: &Notification<'_>) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.request_id
    {
        session.cancel(id);
    }
}

enum Answer {
    Json(String),
    Stream(Response),
}

/// A call that wants progress is answered as a stream, everything else as one JSON object.
async fn answer_or_stream(
    state: &Arc<State>,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Answer, RpcError> {
    if request.method != "tools/call" {
        return answer(state, headers, session, request, principal).await.map(Answer::Json);
    }
    let meta = call::meta(&request.params)?;
    match call::progress_token(&meta)? {
        None => answer(state, headers, session, request, principal).await.map(Answer::Json),
        Some(token) => {
            stream_call(state, headers, session, request, &meta, token, principal).map(Answer::Stream)
        }
    }
}

async fn answer(
    state: &State,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<String, RpcError> {
    match &*request.method {
        "ping" => Ok(rpc::result_json(request.id, "{}")),
        "tools/list" => {
            let registry = state.dispatcher.registry();
            let rendered = state.lists.rendered(registry, &principal, session.version().features());
            Ok(rpc::result_json(request.id, &format!("{{{}}}", rendered.page(request.params.cursor)?)))
        }
        "tools/call" => {
            let meta = call::meta(&request.params)?;
            let key = identity::session_key(
                &principal,
                Some(session.client()),
                &meta,
                headers,
                Some(session.id()),
            )?;
            let running = session.running(request.id);
            let mut call = call::from_params(&request.params, &meta, headers, key, running.cancel(), None)?;
            // A client that lost the connection can still cancel the call on another one.
            call.until_end = Some(Box::new(running));
            let reply = state.dispatcher.call(principal, call).await;
            call_json(request.id, reply, session.version())
        }
        "initialize" => {
            Err(RpcError::invalid_request("initialize opens a session and cannot be part of one"))
        }
        method => {
            let shown: String = method.chars().take(100).collect();
            Err(RpcError::new(StatusCode::OK, METHOD_NOT_FOUND, format!("Method not found: {shown}")))
        }
    }
}

fn call_json(id: &RawValue, reply: CallReply, version: Version) -> Result<String, RpcError> {
    let meta = call::reply_meta(&reply);
    let members = call::result_members(reply, version.features())?;
    Ok(rpc::result_json(id, &format!("{{{members},\"_meta\":{{{meta}}}}}")))
}

/// Runs the call in a task that feeds a stream kept with the session. A client that loses the
/// connection loses nothing: it resumes the stream, and the call went on.
fn stream_call(
    state: &Arc<State>,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    meta: &Map<String, Value>,
    token: String,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let (sender, mut progress) = mpsc::channel(PROGRESS_QUEUE);
    let sink: ProgressSink = Arc::new(move |progress| {
        let _ = sender.try_send(progress);
    });
    let key = identity::session_key(&principal, Some(session.client()), meta, headers, Some(session.id()))?;
    let running = session.running(request.id);
    let cancel = running.cancel();
    let call = call::from_params(&request.params, meta, headers, key, cancel.clone(), Some(sink))?;
    let place = state.streams.enter(&principal)?;
    let log = session.new_stream();
    let (id, version) = (request.id.to_owned(), session.version());
    let (dispatcher, feed, holder) = (state.dispatcher.clone(), log.clone(), principal.clone());
    let kept_with = session.clone();
    let task = async move {
        let mut writer = ProgressWriter::new(token);
        let mut reply = std::pin::pin!(dispatcher.call(principal, call));
        let reply = loop {
            tokio::select! {
                biased;
                Some(progress) = progress.recv() => {
                    if let Some(json) = writer.json(&progress) {
                        feed.push(json);
                    }
                }
                reply = &mut reply => break reply,
            }
        };
        drop(running);
        // Who cancelled a request expects no answer to it.
        let json = (!cancel.is_cancelled())
            .then(|| call_json(&id, reply, version).unwrap_or_else(|error| error.with_id(&id).to_json()));
        feed.finish(json);
        kept_with.trim();
    };
    state.supervisor.spawn(Stage::Work, "mcp call stream", task.in_current_span());
    Ok(get::follow(state, session, Welcome::new(state.authenticator.clone(), holder, place), log, 0))
}
