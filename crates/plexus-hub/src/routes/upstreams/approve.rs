//! Tool definitions that await approval, and their approval.

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_auth::Scope;
use plexus_proto::ErrorCode;
use plexus_proto::api::{ApproveUpstreamParams, Page, PendingTool, UpstreamApproval};
use plexus_upstream::{APPROVE, ApproveError};
use serde_json::json;

use super::record::recorded;
use super::unknown;
use crate::http::{ApiError, Caller};
use crate::routes::query::Segment;
use crate::routes::{refusals, tag};

/// The maximum number of tools of a server, plus its instructions.
const MAX_TOOLS: usize = 1_001;

/// Show pending approvals
///
/// Tools of a server that are not listed because they are new, changed or suspicious, each with the differences. The
/// server's instructions appear as `(instructions)`. Needs the scope `admin`.
#[utoipa::path(
    get,
    path = "/upstreams/{server}/pending",
    operation_id = "getPendingTools",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "All pending tools, on one page.", body = Page<PendingTool>),
        (status = 404, response = refusals::NotFound),
    )
)]
pub(in crate::routes) async fn pending(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<Page<PendingTool>>, ApiError> {
    caller.require_scope(Scope::ADMIN)?;
    let items = caller.services.upstreams.pending(&name).ok_or_else(|| unknown(&name))?;
    Ok(Json(Page { items, next: None }))
}

/// Approve tool definitions of a server
///
/// All given definitions or none: if one of them is not pending (any more), the request is refused with 409. They are
/// listed as soon as this request is answered. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/approve",
    operation_id = "approveUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = ApproveUpstreamParams,
    responses(
        (status = 200, description = "The approved and the still pending tools.", body = UpstreamApproval),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(in crate::routes) async fn approve(
    caller: Caller,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<UpstreamApproval>, ApiError> {
    let params: ApproveUpstreamParams = caller.read_json(request, "tools to approve").await?;
    if !(1..=MAX_TOOLS).contains(&params.tools.len()) {
        return Err(ApiError::bad_request(format!("tools must have 1 to {MAX_TOOLS} entries")));
    }
    let by = caller.principal.subject().to_owned();
    let audit_detail = json!({ "name": name, "tools": params.tools });
    let approval = recorded(caller, APPROVE, audit_detail.clone(), async move |services| {
        let approved = services.upstreams.approve(&name, &params.tools, &by).await;
        let approval = approved.map_err(|error| refused(&name, error))?;
        Ok((audit_detail, approval))
    });
    Ok(Json(approval.await?))
}

fn refused(name: &str, error: ApproveError) -> ApiError {
    match error {
        ApproveError::NoServer => unknown(name),
        ApproveError::Other(tool) => {
            let tool: String = tool.chars().filter(|c| !c.is_control()).take(64).collect();
            let message = format!("the given definition of {tool} is not pending; nothing was approved");
            ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message)
                .hint("List the pending tools again: the definition may have changed.")
        }
        ApproveError::Store(error) => error.into(),
    }
}
