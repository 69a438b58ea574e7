//! `/api/v1/tokens`.

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_proto::TokenId;
use plexus_proto::api::{CreateTokenParams, CreatedToken, Page, Token};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, PageParams, Params, Segment};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

const CURSOR: Cursor = Cursor("tokens");

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// Create a token
///
/// Needs the scope `token:create`, and can do no more than the token that asks. The token itself is in this answer and
/// nowhere else.
#[utoipa::path(
    post,
    path = "/tokens",
    operation_id = "createToken",
    tag = tag::TOKENS,
    request_body = CreateTokenParams,
    responses(
        (status = 201, description = "The token.", body = CreatedToken,
            links(("revoke" = (operation_id = "revokeToken", parameters(("jti" = "$response.body#/jti")))))),
        refusals::ForBody,
        refusals::Always,
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
    responses(
        (status = 200, description = "A page of tokens.", body = Page<Token>),
        (status = 400, response = refusals::BadRequest),
        refusals::Always,
    )
)]
pub(super) async fn list(
    caller: Caller,
    Params(page): Params<PageParams>,
) -> Result<Json<Page<Token>>, ApiError> {
    caller.needs("read:tokens")?;
    let limit = query::limit(page.limit)?;
    let before = CURSOR.read::<TokenId>(page.cursor.as_deref())?;
    let items = caller.services.store.read().await?.tokens(before, limit + 1).await?;
    Ok(Json(CURSOR.page(items, limit, |token| token.jti.to_string())))
}

/// Revoke a token
///
/// And all that were made from it. A token may end itself and what it made; any other needs the scope `token:revoke`.
#[utoipa::path(
    delete,
    path = "/tokens/{jti}",
    operation_id = "revokeToken",
    tag = tag::TOKENS,
    params(("jti" = TokenId, Path, description = "The token.")),
    responses(
        (status = 200, description = "The revoked token.", body = Token),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        refusals::Always,
    )
)]
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
