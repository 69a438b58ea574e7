//! `/api/v1/audit`.

use std::time::Duration;

use axum::Json;
use http::StatusCode;
use plexus_auth::LastVerification;
use plexus_proto::api::{AuditCall, AuditReport, Page};
use plexus_proto::{CallId, ErrorCode, SessionId};
use plexus_store::AuditFilter;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::{self, Cursor, Params, Segment};
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

const READ: &str = "read:audit";
const CURSOR: Cursor = Cursor("audit");
/// Most entries of a partial verification.
const MOST_NEWEST: i64 = 100_000;
/// How long a verification waits for a running one to finish.
const TURN: Duration = Duration::from_secs(30);

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(verify)).routes(routes!(show))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Maximum number of items on a page.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// `next` of the previous page.
    #[param(pattern = "^[A-Za-z0-9_-]+$")]
    cursor: Option<String>,
    /// Only calls of this tool.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    tool: Option<String>,
    /// Only calls of this subject, such as `agent:codex`.
    #[param(pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$")]
    actor: Option<String>,
    /// Only calls of this session.
    #[param(value_type = Option<SessionId>)]
    session: Option<String>,
    /// Only calls that ended with an error, among the newest 50000 entries.
    failed: Option<bool>,
    /// Only the call whose id ends with this, such as `a099c8d3`; at least 4 characters.
    #[param(pattern = "^[0-9a-fA-F-]{4,36}$")]
    id: Option<String>,
}

/// List calls
///
/// Newest first. Needs the scope `read:audit`.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "listCalls",
    tag = tag::AUDIT,
    params(ListParams),
    responses((status = 200, description = "A page of calls.", body = Page<AuditCall>))
)]
pub(super) async fn list(
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<Page<AuditCall>>, ApiError> {
    caller.require_scope(READ)?;
    let limit = query::limit(params.limit)?;
    let filter = AuditFilter {
        tool: query::text("tool", params.tool)?,
        actor: query::text("actor", params.actor)?,
        session_id: params.session.as_deref().map(query::id::<SessionId>).transpose()?,
        call_suffix: query::id_suffix(params.id)?,
        before: CURSOR.read(params.cursor.as_deref())?,
        failed: params.failed.unwrap_or(false),
    };
    let store = &caller.services.store;
    let items = store.read().await?.audit_calls(store.instance_id(), &filter, limit + 1).await?;
    let position = |call: &AuditCall| call.entries.first().map(ToString::to_string).unwrap_or_default();
    Ok(Json(CURSOR.page(items, limit, position)))
}

/// Show a call
///
/// Includes its arguments and its result. Needs the scope `read:audit`.
#[utoipa::path(
    get,
    path = "/audit/{call_id}",
    operation_id = "getCall",
    tag = tag::AUDIT,
    params(("call_id" = CallId, Path, description = "The call.")),
    responses(
        (status = 200, description = "The call.", body = AuditCall),
        (status = 404, response = refusals::NotFound),
    )
)]

pub(super) async fn show(caller: Caller, Segment(call_id): Segment) -> Result<Json<AuditCall>, ApiError> {
    caller.require_scope(READ)?;
    let call_id: CallId = query::id(&call_id)?;
    let call = caller.services.store.read().await?.audit_call(call_id).await?;
    Ok(Json(call.ok_or_else(|| ApiError::not_found("there is no call with this id in the audit log"))?))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParams {
    /// Verifies only this many of the newest entries; not recorded as a full verification.
    #[param(minimum = 1, maximum = 100000)]
    newest: Option<i64>,
}

/// Verify the audit log
///
/// Reads the whole log, or its newest entries, and compares it with the signed head. Needs the scope `read:audit`.
#[utoipa::path(
    get,
    path = "/audit/verify",
    operation_id = "verifyAudit",
    tag = tag::AUDIT,
    params(VerifyParams),
    responses((status = 200, description = "The problems found.", body = AuditReport))
)]
pub(super) async fn verify(
    caller: Caller,
    Params(params): Params<VerifyParams>,
) -> Result<Json<AuditReport>, ApiError> {
    caller.require_scope(READ)?;
    let newest = params.newest.map(newest).transpose()?;
    let Ok(Ok(_turn)) = tokio::time::timeout(TURN, caller.services.verifying.acquire()).await else {
        let message = "the audit log is already being verified for another request";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::Overloaded, message)
            .hint("Try again when that verification has finished."));
    };
    let (store, anchor) = (&caller.services.store, &*caller.services.anchor);
    if let Some(newest) = newest {
        return Ok(Json(store.verify_audit_end(anchor.read(), anchor, newest).await?));
    }
    let report = store.verify_audit(anchor.read(), anchor).await?;
    let noted = LastVerification::new(&report, caller.services.clock.now());
    if let Err(error) = noted.write(&caller.services.config.load().data_dir) {
        tracing::warn!(%error, "cannot record the verification of the audit log");
    }
    Ok(Json(report))
}

fn newest(count: i64) -> Result<i64, ApiError> {
    match count {
        1..=MOST_NEWEST => Ok(count),
        other => Err(ApiError::bad_request(format!("newest must be 1 to {MOST_NEWEST}, not {other}"))),
    }
}
