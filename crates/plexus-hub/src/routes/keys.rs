//! `/api/v1/keys`: the keys that sign tokens, for admins.

use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use plexus_auth::Scope;
use plexus_proto::api::{Key, Page, RotateKeysParams, RotatedKey};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::Segment;
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(rotate)).routes(routes!(retire))
}

/// List the keys that sign tokens
///
/// The current one first. Needs the scope `admin`.
#[utoipa::path(
    get,
    path = "/keys",
    operation_id = "listKeys",
    tag = tag::TOKENS,
    responses((status = 200, description = "The keys.", body = Page<Key>))
)]
pub(super) async fn list(caller: Caller) -> Result<Json<Page<Key>>, ApiError> {
    caller.require_scope(Scope::ADMIN)?;
    Ok(Json(Page { items: caller.services.authenticator.keys(), next: None }))
}

/// Start signing with a new key
///
/// Tokens signed by the old key are accepted for a limited time. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/keys/rotate",
    operation_id = "rotateKeys",
    tag = tag::TOKENS,
    request_body = RotateKeysParams,
    responses((status = 200, description = "The new key and the one it replaces.", body = RotatedKey))
)]
pub(super) async fn rotate(caller: Caller, request: Request) -> Result<Json<RotatedKey>, ApiError> {
    let params: RotateKeysParams = caller.read_json(request, "a rotation of keys").await?;
    let Caller { services, principal } = caller;
    let usual = u64::from(services.config.load().auth.key_overlap_hours) * 3600;
    let overlap = Duration::from_secs(params.overlap_seconds.unwrap_or(usual));
    let authenticator = services.authenticator.clone();
    let rotated = services
        .run_to_completion(
            "rotating keys",
            async move { authenticator.rotate_keys(&principal, overlap).await },
        )
        .await?;
    Ok(Json(rotated?))
}

/// Retire an old key now
///
/// Tokens that it signed are no longer accepted. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/keys/{kid}/retire",
    operation_id = "retireKey",
    tag = tag::TOKENS,
    params(("kid" = String, Path, description = "The key.")),
    responses(
        (status = 200, description = "The retired key.", body = Key),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn retire(caller: Caller, Segment(kid): Segment) -> Result<Json<Key>, ApiError> {
    // Only admins may learn whether a key exists.
    caller.require_scope(Scope::ADMIN)?;
    let Caller { services, principal } = caller;
    let authenticator = services.authenticator.clone();
    let retired = services
        .run_to_completion("retiring a key", async move { authenticator.retire_key(&principal, &kid).await })
        .await?;
    let not_found = || ApiError::not_found("there is no such key").hint("`plexus keys list` shows them.");
    Ok(Json(retired?.ok_or_else(not_found)?))
}
