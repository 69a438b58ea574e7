//! `/api/v1/audit`.

use std::time::Duration;

use axum::Json;
use http::StatusCode;
use plexus_proto::api::{AuditCall, AuditReport, Page};
use plexus_proto::{CallId, ErrorCode};
use plexus_store::AuditFilter;
use serde::Deserialize;

use super::query::{self, Params, Segment};
use crate::http::{ApiError, Caller};

const READ: &str = "read:audit";
/// How long a verification waits for the one before it.
const TURN: Duration = Duration::from_secs(30);

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

pub(super) async fn show(caller: Caller, Segment(call_id): Segment) -> Result<Json<AuditCall>, ApiError> {
    caller.needs(READ)?;
    let call_id: CallId = query::id(&call_id)?;
    let call = caller.services.store.read().await?.audit_call(call_id).await?;
    Ok(Json(call.ok_or_else(|| ApiError::not_found("there is no record of such a call"))?))
}

pub(super) async fn verify(caller: Caller) -> Result<Json<AuditReport>, ApiError> {
    caller.needs(READ)?;
    let Ok(Ok(_turn)) = tokio::time::timeout(TURN, caller.services.verifying.acquire()).await else {
        let message = "the audit is being verified for others";
        return Err(
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message).hint("Try again.")
        );
    };
    Ok(Json(caller.services.store.verify_audit(caller.services.anchor.read()).await?))
}
