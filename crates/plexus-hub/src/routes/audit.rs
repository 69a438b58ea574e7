//! `/api/v1/audit`.

use axum::Json;
use axum::extract::Path;
use plexus_proto::CallId;
use plexus_proto::api::{AuditCall, AuditReport, Page};
use plexus_store::AuditFilter;
use serde::Deserialize;

use super::query::{self, Params};
use crate::http::{ApiError, Caller};

const READ: &str = "read:audit";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    limit: Option<i64>,
    cursor: Option<String>,
    tool: Option<String>,
    actor: Option<String>,
    session: Option<String>,
}

pub(super) async fn list(
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<AuditCall>>, ApiError> {
    caller.needs(READ)?;
    let limit = query::limit(params.limit)?;
    let filter = AuditFilter {
        tool: params.tool,
        actor: params.actor,
        session_id: params.session.as_deref().map(query::id).transpose()?,
        before: query::cursor(params.cursor.as_deref())?,
    };
    let store = &caller.services.store;
    let items = store.read().await?.audit_calls(store.instance_id(), &filter, limit).await?;
    let last = items.last().and_then(|call| call.entries.first());
    let next = (items.len() as i64 == limit).then(|| last.map(ToString::to_string)).flatten();
    Ok(Json(Page { items, next }))
}

pub(super) async fn show(caller: Caller, Path(call_id): Path<String>) -> Result<Json<AuditCall>, ApiError> {
    caller.needs(READ)?;
    let call_id: CallId = query::id(&call_id)?;
    let call = caller.services.store.read().await?.audit_call(call_id).await?;
    Ok(Json(call.ok_or_else(|| ApiError::not_found("there is no record of such a call"))?))
}

pub(super) async fn verify(caller: Caller) -> Result<Json<AuditReport>, ApiError> {
    caller.needs(READ)?;
    Ok(Json(caller.services.store.verify_audit(caller.services.anchor.read()).await?))
}
