//! The stateless revision, 2026-07-28: every request is self-contained.

mod calls;
mod input_required;
mod listen;
pub(crate) mod meta;

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::detached::tasks;
use super::headers::{self, Routing};
use super::offers::{self, OfferList};
use super::rpc::{
    self, INVALID_PARAMS, METHOD_NOT_FOUND, Message, RESOURCE_NOT_FOUND, Request, RpcError,
    UNSUPPORTED_VERSION,
};
use super::{State, call, capabilities, reads};
use crate::version::{Dialect, Era, Features, MODERN, SUPPORTED};
use meta::{META_SERVER, META_VERSION, RequestMeta};

/// How long clients may cache a list.
pub(crate) const TTL_MS: u64 = 30_000;

/// Whether a message belongs to this revision or to an unknown one, which is also answered here.
pub(crate) fn is_modern(message: &Message<'_>, header: Option<&Era>) -> bool {
    let (method, params) = match message {
        Message::Request(request) => (&*request.method, &request.params),
        Message::Notification(notification) => (&*notification.method, &notification.params),
        Message::Response { .. } => ("", &rpc::Params::default()),
    };
    match header {
        Some(Era::Modern | Era::Unknown(_)) => true,
        Some(Era::Session(_)) | None => {
            method == "server/discover"
                || meta::version(params).is_some_and(|version| {
                    // The same session-era revision in the header and the body belongs to the session era.
                    header.is_none_or(|header| *header != Era::parse(&version))
                })
        }
    }
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
        // This revision defines no notifications over HTTP; closing a stream cancels it.
        Message::Notification(_) => Ok(rpc::accepted()),
        Message::Response { .. } => {
            Err(RpcError::invalid_request("this server sends no requests, so it accepts no responses"))
        }
    }
}

async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let meta = RequestMeta::read(checked(&request, Some(headers))?)?;
    let answered = match &*request.method {
        "tools/call" | "resources/read" | "prompts/get" => {
            calls::answer(state, headers, &request, &meta, principal).await
        }
        "subscriptions/listen" => listen::open(state, headers, &request, principal),
        _ => members(state, &request, &meta, &principal).await.map(|members| complete(request.id, &members)),
    };
    answered.map_err(|error| match error.code {
        METHOD_NOT_FOUND => error.with_status(StatusCode::NOT_FOUND),
        // This revision has no specific code for it.
        RESOURCE_NOT_FOUND => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    })
}

/// The `_meta` of a request, after checking it and the headers, if there are any.
pub(crate) fn checked(
    request: &Request<'_>,
    headers: Option<&HeaderMap>,
) -> Result<Map<String, Value>, RpcError> {
    let meta = meta::required(request)?;
    let version = meta[META_VERSION].as_str().unwrap_or_default();
    if let Some(headers) = headers {
        let name = call::routed_name(&request.method, &request.params);
        headers::check_routing(headers, &Routing { version, method: &request.method, name })?;
    }
    if version != MODERN {
        return Err(unsupported(version));
    }
    Ok(meta)
}

/// The members of the result of a method other than calls and `subscriptions/listen`.
async fn members(
    state: &State,
    request: &Request<'_>,
    meta: &RequestMeta,
    principal: &Principal,
) -> Result<String, RpcError> {
    let params = &request.params;
    let page = |list| offers::page(state, principal, list, params.cursor, Features::ALL).map(cacheable);
    match &*request.method {
        "server/discover" => Ok(cacheable(discover(state, principal))),
        "tools/list" => {
            let registry = state.dispatcher.registry();
            state.lists.rendered(registry, principal, Features::ALL).page(params.cursor).map(cacheable)
        }
        "resources/list" => page(OfferList::Resources),
        "resources/templates/list" => page(OfferList::Templates),
        "prompts/list" => page(OfferList::Prompts),
        "completion/complete" => reads::complete(state, principal, params, Dialect::Modern).await,
        "tasks/get" => tasks::get(state, principal, params, meta.capabilities).await,
        "tasks/update" => tasks::update(state, principal, params, meta.capabilities).await,
        "tasks/cancel" => tasks::cancel(state, principal, params, meta.capabilities).await,
        method => Err(rpc::method_not_found(method)),
    }
}

fn cacheable(members: String) -> String {
    format!("{members},\"ttlMs\":{TTL_MS},\"cacheScope\":\"private\"")
}

/// The error for an unsupported revision.
pub(super) fn unsupported(version: &str) -> RpcError {
    RpcError::new(StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(json!({ "supported": SUPPORTED, "requested": version }))
}

/// A response with a complete result.
pub(super) fn complete_json(id: &RawValue, members: &str, meta: &str) -> String {
    result_json(id, "complete", members, meta)
}

/// A response with a result of this type.
fn result_json(id: &RawValue, kind: &str, members: &str, meta: &str) -> String {
    let comma = if meta.is_empty() { "" } else { "," };
    let more = if members.is_empty() { "" } else { "," };
    let server = super::session::server_info();
    let result = format!(
        "{{\"resultType\":\"{kind}\"{more}{members},\"_meta\":{{\"{META_SERVER}\":{server}{comma}{meta}}}}}"
    );
    rpc::result_json(id, &result)
}

fn complete(id: &RawValue, members: &str) -> Response {
    rpc::json_response(StatusCode::OK, complete_json(id, members, ""))
}

fn discover(state: &State, principal: &Principal) -> String {
    format!(
        "\"supportedVersions\":{},\"capabilities\":{},\"instructions\":{}",
        json!(SUPPORTED),
        capabilities(Dialect::Modern),
        json!(state.instructions(principal)),
    )
}
