//! `/api/v1/tokens`.

use std::time::Duration;

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_proto::TokenId;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Page, RotateTokenParams, Token, TokenDetail};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

const CURSOR: Cursor = Cursor("tokens");

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show_self))
        .routes(routes!(renew))
        .routes(routes!(show, revoke))
        .routes(routes!(rotate))
}

/// Create a token
///
/// Needs the scope `token:create`. The new token cannot have more rights than the requesting token. The token
/// itself is shown only in this answer.
#[utoipa::path(
    post,
    path = "/tokens",
    operation_id = "createToken",
    tag = tag::TOKENS,
    request_body = CreateTokenParams,
    responses(
        (status = 201, description = "The token.", body = CreatedToken,
            links(("revoke" = (operation_id = "revokeToken", parameters(("jti" = "$response.body#/jti")))))),
    )
)]
pub(super) async fn create(
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let params: CreateTokenParams = caller.read_json(request, "a token request").await?;
    let created = caller.services.authenticator.mint(&caller.principal, params).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// List tokens
///
/// Newest first, without the tokens themselves. Needs the scope `read:tokens`.
#[utoipa::path(
    get,
    path = "/tokens",
    operation_id = "listTokens",
    tag = tag::TOKENS,
    params(PageParams),
    responses((status = 200, description = "A page of tokens.", body = Page<Token>))
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Token>>, ApiError> {
    caller.require_scope("read:tokens")?;
    let limit = query::limit(page.limit)?;
    let before = CURSOR.read::<TokenId>(page.cursor.as_deref())?;
    let items = caller.services.store.read_committed().await?.tokens(before, limit + 1).await?;
    let items = items.into_iter().map(|token| up_to_date(&caller, token)).collect();
    Ok(Json(CURSOR.page(items, limit, |token: &Token| token.jti.to_string())))
}

/// Show the requesting token
#[utoipa::path(
    get,
    path = "/tokens/self",
    operation_id = "getOwnToken",
    tag = tag::TOKENS,
    responses((status = 200, description = "The token.", body = TokenDetail))
)]
pub(super) async fn show_self(caller: Caller) -> Result<Json<TokenDetail>, ApiError> {
    detail(&caller, caller.principal.token_id()).await
}

/// Show a token
///
/// A token may see itself and its descendants; any other needs the scope `read:tokens`.
#[utoipa::path(
    get,
    path = "/tokens/{jti}",
    operation_id = "getToken",
    tag = tag::TOKENS,
    params(("jti" = TokenId, Path, description = "The token.")),
    responses(
        (status = 200, description = "The token.", body = TokenDetail),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn show(caller: Caller, Segment(jti): Segment) -> Result<Json<TokenDetail>, ApiError> {
    let jti: TokenId = query::id(&jti)?;
    if !caller.principal.allows("read:tokens") {
        own(&caller, jti).await?;
    }
    detail(&caller, jti).await
}

/// Renew the requesting token
///
/// Returns a token of the same kind, name, scopes and lifetime, if this one may still be renewed. The requesting
/// token remains valid until it expires.
#[utoipa::path(
    post,
    path = "/tokens/renew",
    operation_id = "renewToken",
    tag = tag::TOKENS,
    responses(
        (status = 201, description = "The token.", body = CreatedToken),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn renew(caller: Caller) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let created = caller.services.authenticator.renew(&caller.principal).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// Replace a token
///
/// Returns a token with the same rights, and ends the old one immediately or after a grace period. For admins, and
/// for the token's ancestors.
#[utoipa::path(
    post,
    path = "/tokens/{jti}/rotate",
    operation_id = "rotateToken",
    tag = tag::TOKENS,
    params(("jti" = TokenId, Path, description = "The token to replace.")),
    request_body = RotateTokenParams,
    responses(
        (status = 201, description = "The token that replaces it.", body = CreatedToken),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn rotate(
    caller: Caller,
    Segment(jti): Segment,
    request: Request,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let jti: TokenId = query::id(&jti)?;
    let params: RotateTokenParams = caller.read_json(request, "a rotation of a token").await?;
    let Caller { services, principal } = caller;
    let grace = Duration::from_secs(params.grace_seconds.unwrap_or(0));
    let authenticator = services.authenticator.clone();
    let rotated = services
        .run_to_completion(
            "rotating a token",
            async move { authenticator.rotate(&principal, jti, grace).await },
        )
        .await?;
    Ok((StatusCode::CREATED, Json(rotated?.ok_or_else(not_found)?)))
}

/// Revoke a token
///
/// Also revokes its descendants. A token may revoke itself and its descendants; any other needs the scope
/// `token:revoke`.
#[utoipa::path(
    delete,
    path = "/tokens/{jti}",
    operation_id = "revokeToken",
    tag = tag::TOKENS,
    params(("jti" = TokenId, Path, description = "The token.")),
    responses(
        (status = 200, description = "The revoked token.", body = Token),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(super) async fn revoke(caller: Caller, Segment(jti): Segment) -> Result<Json<Token>, ApiError> {
    let jti: TokenId = query::id(&jti)?;
    // A token may revoke itself and its descendants; any other needs the scope.
    if !caller.principal.allows("token:revoke") {
        own(&caller, jti).await?;
    }
    let token = caller.services.authenticator.revoke(&caller.principal, jti).await?.ok_or_else(not_found)?;
    Ok(Json(token))
}

/// Succeeds only if the token is the caller's own or its descendant.
async fn own(caller: &Caller, jti: TokenId) -> Result<(), ApiError> {
    let asking = caller.principal.token_id();
    if jti == asking || caller.services.store.read_committed().await?.token_descends_from(jti, asking).await?
    {
        return Ok(());
    }
    Err(not_found())
}

async fn detail(caller: &Caller, jti: TokenId) -> Result<Json<TokenDetail>, ApiError> {
    let mut reader = caller.services.store.read_committed().await?;
    let token = reader.token(jti).await?.ok_or_else(not_found)?;
    let children = reader.token_children(jti).await?;
    let state = token.state(caller.services.clock.now());
    Ok(Json(TokenDetail { token: up_to_date(caller, token), state, children }))
}

/// Adds a use that has not been written yet.
fn up_to_date(caller: &Caller, token: Token) -> Token {
    let last_used_at = caller.services.authenticator.last_used(token.jti).max(token.last_used_at);
    Token { last_used_at, ..token }
}

fn not_found() -> ApiError {
    ApiError::not_found("there is no such token").hint("`plexus token list --all` shows all of them.")
}
