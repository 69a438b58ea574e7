//! The methods of a session that are answered with one JSON object.

use std::sync::Arc;

use plexus_auth::Principal;
use plexus_tools::LogLevel;

use super::{McpSession, watched};
use crate::server::offers::{self, Listed};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::{State, reads};
use crate::version::Dialect;

/// Whether a method is a call, which may take its time and ask back.
pub(super) fn is_call(method: &str) -> bool {
    matches!(method, "tools/call" | "resources/read" | "prompts/get")
}

/// The whole answer to a method that is no call.
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
    let listed = |what| offers::list(state, principal, what, params.cursor, features);
    match &*request.method {
        "ping" => Ok(String::new()),
        "tools/list" => {
            let registry = state.dispatcher.registry();
            state.lists.rendered(registry, principal, features).page(params.cursor)
        }
        "resources/list" => listed(Listed::Resources),
        "resources/templates/list" => listed(Listed::Templates),
        "prompts/list" => listed(Listed::Prompts),
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
        "resources/subscribe" => watched::subscribe(state, session, principal, params).await,
        "resources/unsubscribe" => watched::unsubscribe(session, params),
        "initialize" => {
            Err(RpcError::invalid_request("initialize opens a session and cannot be part of one"))
        }
        method => Err(rpc::method_not_found(method)),
    }
}
