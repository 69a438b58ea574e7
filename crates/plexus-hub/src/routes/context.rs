//! `/api/v1/context`.
//!
//! The version is a hash of the content alone, so it stays the same across restarts of the hub and between hubs. A
//! waiting request is woken by every change that could affect the content, and then computes the content again.

use std::time::Duration;

use aws_lc_rs::digest;
use http::{HeaderMap, StatusCode};
use plexus_auth::AuthError;
use plexus_kit::hex;
use plexus_proto::ErrorCode;
use plexus_proto::api::{Context, ContextNode, ContextToken, TokenState};
use plexus_tools::nodes::{self, Nodes};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::Params;
use super::tag;
use crate::App;
use crate::http::{ApiError, Caller, Tag, Tagged};

/// Longest wait, in seconds.
const MAX_WAIT: u64 = 60;

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ContextParams {
    /// With `If-None-Match`: the longest time to wait for a change, in seconds. Without a change the answer is 304.
    #[param(minimum = 0, maximum = 60, default = 0)]
    wait: Option<u64>,
}

/// Show what the requesting token can see and use
///
/// Its subject, its expiry, the machines that it may use, and a fingerprint of its list of tools: everything that a
/// program between an agent and the hub has to follow. With `wait` and the version in `If-None-Match`, the request is
/// answered as soon as something changes.
#[utoipa::path(
    get,
    path = "/context",
    operation_id = "getContext",
    tag = tag::TOKENS,
    params(ContextParams),
    responses(
        (status = 200, description = "The context.", body = Context),
        (status = 304, description = "The context has not changed within the waiting time."),
    )
)]
pub(super) async fn show(
    caller: Caller,
    Params(params): Params<ContextParams>,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    let wait = params.wait.unwrap_or(0);
    if wait > MAX_WAIT {
        return Err(ApiError::bad_request(format!("wait must be 0 to {MAX_WAIT} seconds, not {wait}")));
    }
    let services = &caller.services;
    let _slot = (wait > 0).then(|| slot(&caller)).transpose()?;
    let until = Instant::now() + Duration::from_secs(wait);
    // Subscribe before the first look, so that no change is missed in between.
    let mut registry = services.dispatcher.registry().versions();
    let mut machines = services.nodes.changes();
    let mut revocations = services.authenticator.revocations();
    let mut token = token(&caller).await?;
    loop {
        services.authenticator.check(&caller.principal)?;
        let context = context(&caller, &token)?;
        let tag = Tag::named(&context.version)?;
        if !tag.is_known_to(&headers) || Instant::now() >= until || services.draining.is_cancelled() {
            return Tagged::versioned(&headers, tag, &context);
        }
        let left = services.authenticator.time_left(&caller.principal).unwrap_or_default();
        tokio::select! {
            Ok(()) = registry.changed() => {}
            Ok(()) = machines.changed() => {}
            Ok(()) = revocations.changed() => token = self::token(&caller).await?,
            () = services.draining.cancelled() => {}
            () = tokio::time::sleep(left) => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

fn slot(caller: &Caller) -> Result<plexus_kit::QuotaSlot, ApiError> {
    let waits = &caller.services.context_waits;
    waits.enter(caller.principal.subject()).ok_or_else(|| {
        let message = format!(
            "{} requests of {} are already waiting for changes",
            waits.limit(),
            caller.principal.subject()
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
            .hint("That is the limit. Ask without `wait`, or try again when one of them has finished.")
    })
}

async fn token(caller: &Caller) -> Result<ContextToken, ApiError> {
    let jti = caller.principal.token_id();
    let stored = caller.services.store.read_committed().await?.token(jti).await?;
    let stored = stored.ok_or_else(|| ApiError::not_found("there is no such token"))?;
    if stored.state(caller.services.clock.now()) == TokenState::Revoked {
        return Err(AuthError::Revoked.into());
    }
    let expires_at = stored.revoked_at.map_or(stored.expires_at, |end| end.min(stored.expires_at));
    Ok(ContextToken { jti, kind: stored.kind, expires_at, renew_until: stored.renew_until })
}

fn context(caller: &Caller, token: &ContextToken) -> Result<Context, ApiError> {
    let (services, principal) = (&caller.services, &caller.principal);
    let all = services.nodes.all();
    let nodes = nodes::usable(&all, principal)
        .map(|node| ContextNode { name: node.name.clone(), online: node.absence().is_none() });
    let mut context = Context {
        subject: principal.subject().to_owned(),
        token: token.clone(),
        nodes: nodes.collect(),
        tools: services.mcp.tools_fingerprint(principal),
        version: String::new(),
    };
    let content = serde_json::to_vec(&context).map_err(|e| ApiError::internal("writing the answer", &e))?;
    context.version = hex::encode(&digest::digest(&digest::SHA256, &content).as_ref()[..16]);
    Ok(context)
}
