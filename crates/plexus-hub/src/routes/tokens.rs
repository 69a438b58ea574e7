//! `/api/v1/tokens`.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use http::StatusCode;
use plexus_proto::api::{AuditPhase, CreateTokenParams, CreatedToken, Page, Token};
use plexus_proto::{CallId, TokenId};
use plexus_store::{NewAudit, Records};
use serde_json::{Value, json};

use super::query::{self, PageParams, Params};
use crate::http::{ApiError, Caller, read_body};

pub(super) async fn create(caller: Caller, body: Body) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let body = read_body(body, &caller.services.config.limits).await?;
    let params: CreateTokenParams = serde_json::from_slice(&body)
        .map_err(|e| ApiError::bad_request(format!("the body is not a token request: {e}")))?;
    let created = caller.services.authenticator.mint(&caller.principal, params).await?;
    let made =
        json!({ "jti": created.jti, "kind": created.kind, "name": created.name, "scopes": created.scopes });
    record(&caller, "token_create", &made).await?;
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

pub(super) async fn revoke(caller: Caller, Path(jti): Path<String>) -> Result<Json<Token>, ApiError> {
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
    let token = caller.services.authenticator.revoke(jti).await?.ok_or_else(gone)?;
    record(&caller, "token_revoke", &json!({ "jti": jti, "kind": token.kind, "name": token.name })).await?;
    Ok(Json(token))
}

/// Who may do what is as much part of the record as what they did.
async fn record(caller: &Caller, what: &str, detail: &Value) -> Result<(), ApiError> {
    tracing::info!(by = caller.principal.subject(), %detail, "{what}");
    let call_id = CallId::new();
    let entry = |phase, outcome| NewAudit {
        at: caller.services.clock.now(),
        phase,
        call_id: Some(call_id),
        token_id: Some(caller.principal.token_id()),
        actor: caller.principal.subject().to_owned(),
        session_id: None,
        tool: what.to_owned(),
        via: "rest",
        outcome,
        detail: detail.to_string(),
    };
    let audit = vec![entry(AuditPhase::Started, ""), entry(AuditPhase::Finished, "ok")];
    Ok(caller.services.store.append(Records { audit, events: vec![] }).await?)
}
