//! The methods of a session other than calls.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_tools::LogLevel;

use super::{McpSession, subscriptions};
use crate::server::offers::{self, OfferList};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::{State, reads};
use crate::version::Dialect;

/// Whether a method is a call, which may run long and ask questions.
pub(super) fn is_call(method: &str) -> bool {
    matches!(method, "tools/call" | "resources/read" | "prompts/get")
}

/// The response to a method other than a call.
pub(super) async fn answer(
    state: &State,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: &Principal,
) -> Result<String, RpcError> {
    let members = members(state, session, request, principal).await?;
    Ok(rpc::result_json(request.id, &format!("{{{members}}}")))
}

async fn members(
    state: &State,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: &Principal,
) -> Result<String, RpcError> {
    let (params, features) = (&request.params, session.version().features());
    let page = |list| offers::page(state, principal, list, params.cursor, features);
    match &*request.method {
        "ping" => Ok(String::new()),
        "tools/list" => {
            let registry = state.dispatcher.registry();
            state.lists.rendered(registry, principal, features).page(params.cursor)
        }
        "resources/list" => page(OfferList::Resources),
        "resources/templates/list" => page(OfferList::Templates),
        "prompts/list" => page(OfferList::Prompts),
        "completion/complete" => {
            reads::complete(state, principal, params, Dialect::Session(session.version())).await
        }
        "logging/setLevel" => {
            let level = rpc::text(params.level).as_deref().and_then(LogLevel::parse).ok_or_else(|| {
                let levels = LogLevel::ALL.map(LogLevel::as_str).join(", ");
                RpcError::invalid_params(format!("params.level must be one of {levels}"))
            })?;
            state.sessions.set_log_level(session, level).await?;
            Ok(String::new())
        }
        "resources/subscribe" => subscriptions::subscribe(state, session, principal, params).await,
        "resources/unsubscribe" => subscriptions::unsubscribe(session, params),
        "initialize" => {
            Err(RpcError::invalid_request("initialize opens a session and cannot be part of one"))
        }
        method => Err(rpc::method_not_found(method)),
    }
}
