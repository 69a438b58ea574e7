//! `/api/v1/tokens`.

use axum::Json;
use axum::body::Body;
use http::StatusCode;
use plexus_proto::TokenId;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Page, Token};

use super::query::{self, PageParams, Params, Segment};
use crate::http::{ApiError, Caller};

pub(super) async fn create(caller: Caller, body: Body) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let body = caller.read_body(body).await?;
    let params: CreateTokenParams = serde_json::from_slice(&body)
        .map_err(|e| ApiError::bad_request(format!("the body is not a token request: {e}")))?;
    let created = caller.services.authenticator.mint(&caller.principal, params).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Token>>, ApiError> {
    caller.needs("read:tokens")?;
    let limit = query::limit(page.limit)?;
    let before = query::cursor::<TokenId>(page.cursor.as_deref())?;
    let items = caller.services.store.read().await?.tokens(before, limit).await?;
    let next =
        (items.len() as i64 == limit).then(|| items.last().map(|token| token.jti.to_string())).flatten();
    Ok(Json(Page { items, next }))
}

pub(super) async fn revoke(caller: Caller, Segment(jti): Segment) -> Result<Json<Token>, ApiError> {
    let jti: TokenId = query::id(&jti)?;
    let gone =
        || ApiError::not_found("there is no such token").hint("`plexus token list --all` shows all of them.");
    // A token may end itself and what it made; any other needs the scope.
    if !caller.principal.allows("token:revoke") && jti != caller.principal.token_id() {
        let token = caller.services.store.read().await?.token(jti).await?;
        if token.is_none_or(|token| token.parent != Some(caller.principal.token_id())) {
            return Err(gone());
        }
    }
    let token = caller.services.authenticator.revoke(&caller.principal, jti).await?.ok_or_else(gone)?;
    Ok(Json(token))
}
