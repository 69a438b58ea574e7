//! `/api/v1/tokens`.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use http::StatusCode;
use plexus_proto::TokenId;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Page, RotateTokenParams, Token, TokenDetail};

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
    let items = items.into_iter().map(|token| up_to_date(&caller, token)).collect();
    Ok(Json(Page { items, next }))
}

pub(super) async fn show_self(caller: Caller) -> Result<Json<TokenDetail>, ApiError> {
    detail(&caller, caller.principal.token_id()).await
}

pub(super) async fn show(caller: Caller, Segment(jti): Segment) -> Result<Json<TokenDetail>, ApiError> {
    let jti: TokenId = query::id(&jti)?;
    if !caller.principal.allows("read:tokens") {
        own(&caller, jti).await?;
    }
    detail(&caller, jti).await
}

/// A token of the same kind as the one that asks for it.
pub(super) async fn renew(caller: Caller) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let created = caller.services.authenticator.renew(&caller.principal).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

pub(super) async fn rotate(
    caller: Caller,
    Segment(jti): Segment,
    body: Body,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let jti: TokenId = query::id(&jti)?;
    let params: RotateTokenParams = caller.read_params(body, "a rotation of a token").await?;
    let Caller { services, principal } = caller;
    let grace = Duration::from_secs(params.grace_seconds.unwrap_or(0));
    let authenticator = services.authenticator.clone();
    let rotated = services
        .see_through("rotating a token", async move { authenticator.rotate(&principal, jti, grace).await })
        .await?;
    Ok((StatusCode::CREATED, Json(rotated?.ok_or_else(gone)?)))
}

pub(super) async fn revoke(caller: Caller, Segment(jti): Segment) -> Result<Json<Token>, ApiError> {
    let jti: TokenId = query::id(&jti)?;
    // A token may end itself and what it made; any other needs the scope.
    if !caller.principal.allows("token:revoke") {
        own(&caller, jti).await?;
    }
    let token = caller.services.authenticator.revoke(&caller.principal, jti).await?.ok_or_else(gone)?;
    Ok(Json(token))
}

/// Goes on only if the token is the caller's, or comes from it.
async fn own(caller: &Caller, jti: TokenId) -> Result<(), ApiError> {
    let asking = caller.principal.token_id();
    if jti == asking || caller.services.store.read().await?.token_descends_from(jti, asking).await? {
        return Ok(());
    }
    Err(gone())
}

async fn detail(caller: &Caller, jti: TokenId) -> Result<Json<TokenDetail>, ApiError> {
    let mut reader = caller.services.store.read().await?;
    let token = reader.token(jti).await?.ok_or_else(gone)?;
    let children = reader.token_children(jti).await?;
    let state = token.state(caller.services.clock.now());
    Ok(Json(TokenDetail { token: up_to_date(caller, token), state, children }))
}

/// With a use that was not written yet.
fn up_to_date(caller: &Caller, token: Token) -> Token {
    let last_used_at = caller.services.authenticator.last_used(token.jti).max(token.last_used_at);
    Token { last_used_at, ..token }
}

fn gone() -> ApiError {
    ApiError::not_found("there is no such token").hint("`plexus token list --all` shows all of them.")
}
