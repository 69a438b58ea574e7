//! `/api/v1/keys`: the keys that sign tokens, for admins.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use plexus_auth::Scope;
use plexus_proto::api::{Key, Page, RotateKeysParams, RotatedKey};

use super::query::Segment;
use crate::http::{ApiError, Caller};

pub(super) async fn list(caller: Caller) -> Result<Json<Page<Key>>, ApiError> {
    caller.needs(Scope::ADMIN)?;
    Ok(Json(Page { items: caller.services.authenticator.keys(), next: None }))
}

pub(super) async fn rotate(caller: Caller, body: Body) -> Result<Json<RotatedKey>, ApiError> {
    let params: RotateKeysParams = caller.read_params(body, "a rotation of keys").await?;
    let Caller { services, principal } = caller;
    let usual = u64::from(services.config.load().auth.key_overlap_hours) * 3600;
    let overlap = Duration::from_secs(params.overlap_seconds.unwrap_or(usual));
    let authenticator = services.authenticator.clone();
    let rotated = services
        .see_through("rotating keys", async move { authenticator.rotate_keys(&principal, overlap).await })
        .await?;
    Ok(Json(rotated?))
}

pub(super) async fn retire(caller: Caller, Segment(kid): Segment) -> Result<Json<Key>, ApiError> {
    // Whether there is such a key is for admins to know.
    caller.needs(Scope::ADMIN)?;
    let Caller { services, principal } = caller;
    let authenticator = services.authenticator.clone();
    let retired = services
        .see_through("retiring a key", async move { authenticator.retire_key(&principal, &kid).await })
        .await?;
    let gone = || ApiError::not_found("there is no such key").hint("`plexus keys list` shows them.");
    Ok(Json(retired?.ok_or_else(gone)?))
}
