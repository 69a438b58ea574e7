//! `/api/v1/external-agents`.

use axum::Json;
use axum::extract::Request;
use plexus_proto::api::{
    ChangeExternalAgentParams, ExternalAgent, ExternalAgentInstructions, ExternalAgentSync, ExternalAgents,
    RemovedExternalAgent, SyncExternalAgentsParams, Token, TokenKind,
};
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::Segment;
use super::upstreams::record::recorded;
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

const SCOPE: &str = "read:agents";
/// Names of these operations in the audit log.
const SYNC: &str = "external_agent.sync";
const CHANGE: &str = "external_agent.change";
const REMOVE: &str = "external_agent.remove";

/// Maximum number of tokens that are revoked with a connection.
const MOST_TOKENS: usize = 16;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(instructions))
        .routes(routes!(sync))
        .routes(routes!(change, remove))
}

/// List third-party agents
///
/// The agents found on the hub's machine and on its nodes: which are connected, when their files were last checked,
/// and the state of each file. Needs the scope `read:agents`.
#[utoipa::path(
    get,
    path = "/external-agents",
    operation_id = "listExternalAgents",
    tag = tag::AGENTS,
    responses(
        (status = 200, description = "The agents, and machines that did not answer.", body = ExternalAgents),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn list(caller: Caller) -> Result<Json<ExternalAgents>, ApiError> {
    caller.require_scope(SCOPE)?;
    caller.services.connected.list().await.map(Json)
}

/// Show the instructions for agents
///
/// The files of the hub's workspace, for programs that write them on a machine that is not a node. Needs the scope
/// `read:agents`.
#[utoipa::path(
    get,
    path = "/external-agents/instructions",
    operation_id = "getExternalAgentInstructions",
    tag = tag::AGENTS,
    responses((status = 200, description = "The files.", body = ExternalAgentInstructions))
)]
pub(super) async fn instructions(caller: Caller) -> Result<Json<ExternalAgentInstructions>, ApiError> {
    caller.require_scope(SCOPE)?;
    caller.services.connected.instructions().await.map(Json)
}

/// Write the instructions now
///
/// For one agent, or for all that are not paused, on the hub's machine and on its nodes. A file is written only if
/// its content is outdated. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/external-agents/sync",
    operation_id = "syncExternalAgents",
    tag = tag::AGENTS,
    request_body = SyncExternalAgentsParams,
    responses(
        (status = 200, description = "The files that were written, and those that could not be.", body = ExternalAgentSync),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn sync(caller: Caller, request: Request) -> Result<Json<ExternalAgentSync>, ApiError> {
    let params: SyncExternalAgentsParams = caller.read_json(request, "a sync request").await?;
    let synced = recorded(caller, SYNC, json!({ "id": params.id }), async move |services| {
        let synced = services.connected.sync(params.id.as_deref()).await?;
        Ok((json!({ "id": params.id, "written": synced.written }), synced))
    });
    synced.await.map(Json)
}

/// Pause or resume an agent
///
/// While an agent is paused, its instructions are not updated. Needs the scope `admin`.
#[utoipa::path(
    patch,
    path = "/external-agents/{id}",
    operation_id = "changeExternalAgent",
    tag = tag::AGENTS,
    params(("id" = String, Path, description = "The agent, such as `local:codex`.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = ChangeExternalAgentParams,
    responses(
        (status = 200, description = "The agent.", body = ExternalAgent),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn change(
    caller: Caller,
    Segment(id): Segment,
    request: Request,
) -> Result<Json<ExternalAgent>, ApiError> {
    let params: ChangeExternalAgentParams = caller.read_json(request, "a change of an agent").await?;
    let audit_detail = json!({ "id": id, "paused": params.paused });
    let changed = recorded(caller, CHANGE, audit_detail.clone(), async move |services| {
        let changed = services.connected.pause(&id, params.paused).await?;
        if !params.paused {
            // Apply the changes made during the pause now instead of in the next round.
            services.connected.sync(Some(&id)).await?;
        }
        Ok((audit_detail, changed))
    });
    changed.await.map(Json)
}

/// Disconnect an agent
///
/// Removes the Plexus entries from its files and revokes its token. Entries that somebody has changed since are
/// left in place and reported. Needs the scope `admin`.
#[utoipa::path(
    delete,
    path = "/external-agents/{id}",
    operation_id = "removeExternalAgent",
    tag = tag::AGENTS,
    params(("id" = String, Path, description = "The agent, such as `local:codex`.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The files that were changed or removed.", body = RemovedExternalAgent),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn remove(
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<RemovedExternalAgent>, ApiError> {
    let principal = caller.principal.clone();
    let removed = recorded(caller, REMOVE, json!({ "id": id }), async move |services| {
        let (removed, tokens) = services.connected.remove(&id).await?;
        let mut revoked = Vec::new();
        for token in tokens.into_iter().take(MOST_TOKENS) {
            // The agent's machine reported this token id, and it could be any token: revoke it only if it is an
            // agent token of this name.
            let known = services.store.read_committed().await?.token(token).await?;
            if known.is_some_and(|known| is_of_agent(&known, &id)) {
                services.authenticator.revoke(&principal, token).await?;
                revoked.push(token);
            }
        }
        let done = json!({ "id": id, "gone": removed.gone, "written": removed.written, "revoked": revoked });
        Ok((done, removed))
    });
    removed.await.map(Json)
}

/// Whether a token belongs to a connected agent of this name, as created by `plexus connect`: `codex`, or `ann/codex`
/// for a user.
fn is_of_agent(token: &Token, id: &str) -> bool {
    let key = id.split_once(':').map_or(id, |(_, key)| key);
    let agent = key.split('@').next().unwrap_or(key);
    let name = token.name.rsplit('/').next().unwrap_or(&token.name);
    token.kind == TokenKind::Agent && name == agent
}
