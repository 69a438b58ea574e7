//! The session era, 2024-11-05 to 2025-11-25: `initialize` opens a session, and a header names it.
//!
//! A session belongs only to the principal that opened it. It is stored, so it survives a restart of the hub. A
//! request with an unknown, ended or foreign session gets 404, which makes the client initialize again.

mod calls;
mod directory;
mod get;
mod methods;
mod questions;
mod stream;
mod subscriptions;

use std::sync::Arc;

use axum::response::Response;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, StatusCode};
use plexus_auth::Principal;
use plexus_tools::Capabilities;
use serde_json::{Map, Value, json};

use super::rpc::{self, Message, Notification, Request, RpcError};
use super::{State, capabilities, headers};
use crate::version::{Dialect, Version};

pub(super) use directory::{McpSession, Sessions};
pub(super) use get::get;

/// Most messages in a batch.
const MAX_BATCH: usize = 50;
/// Largest total size of the answers to a batch, which are in memory until the client has read them.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// The name and version of this server as JSON.
pub(crate) fn server_info() -> &'static str {
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
            let answered = match methods::is_call(&request.method) {
                true => calls::answer(state, headers, &session, &request, principal).await,
                false => methods::answer(state, &session, &request, &principal)
                    .await
                    .map(|json| rpc::json_response(StatusCode::OK, json)),
            };
            answered.map_err(|error| error.with_id(request.id))
        }
        Message::Notification(notification) => {
            let session = open(state, headers, &principal).await?;
            handle_notification(&session, &notification);
            Ok(rpc::accepted())
        }
        Message::Response { id, outcome } => {
            let session = open(state, headers, &principal).await?;
            session.questions().accept_answer(id, outcome);
            Ok(rpc::accepted())
        }
    }
}

/// Handles a batch, in the revisions that have batches.
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
                    let json = match methods::is_call(&request.method) {
                        true => calls::answer_in_batch(state, headers, session, &request, principal).await,
                        false => methods::answer(state, session, &request, &principal).await,
                    };
                    Some(json.unwrap_or_else(|error| error.with_id(request.id).to_json()))
                }
                Ok(Message::Notification(notification)) => {
                    handle_notification(session, &notification);
                    None
                }
                Ok(Message::Response { id, outcome }) => {
                    session.questions().accept_answer(id, outcome);
                    None
                }
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
        let message = format!("the answers have {bytes} bytes in total; send the requests separately");
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

/// The session that a request names.
async fn open(
    state: &State,
    headers: &HeaderMap,
    principal: &Principal,
) -> Result<Arc<McpSession>, RpcError> {
    let Some(id) = headers::session_id(headers)? else {
        return Err(RpcError::invalid_request("the header Mcp-Session-Id is missing; send initialize first"));
    };
    state.sessions.open(id, principal).await
}

async fn initialize(
    state: &State,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let Some(requested) = rpc::text(request.params.protocol_version) else {
        return Err(RpcError::invalid_params("params.protocolVersion must be a string"));
    };
    let version = Version::parse(&requested).unwrap_or(Version::LATEST);
    let client: Map<String, Value> =
        request.params.client_info.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let client = client.get("name").and_then(Value::as_str).unwrap_or("unknown");
    let declared = request.params.capabilities.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let declared = Capabilities::read(&declared.unwrap_or_default());
    let session = state.sessions.create(&principal, version, client, declared).await?;
    let result = format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{},\
         \"serverInfo\":{},\"instructions\":{}}}",
        capabilities(Dialect::Session(version)),
        server_info(),
        json!(state.instructions(&principal)),
    );
    let mut response = rpc::json_response(StatusCode::OK, rpc::result_json(request.id, &result));
    if let Ok(id) = HeaderValue::from_str(session.id()) {
        response.headers_mut().insert(headers::SESSION_ID, id);
    }
    Ok(response)
}

fn handle_notification(session: &McpSession, notification: &Notification<'_>) {
    if notification.method == "notifications/cancelled"
        && let Some(id) = notification.params.request_id
    {
        session.cancel(id);
    }
}
