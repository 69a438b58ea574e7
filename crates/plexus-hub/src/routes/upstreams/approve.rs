//! What waits to be approved of a server, and approving it.

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

/// As many as a server can have, and its instructions.
const MAX_TOOLS: usize = 1_001;

/// Show what waits to be approved
///
/// Tools of a server that are not listed because they are new, have changed or are strange, each with what has changed. Its
/// instructions are among them as `(instructions)`. Needs the scope `admin`.
#[utoipa::path(
    get,
    path = "/upstreams/{server}/pending",
    operation_id = "getPendingTools",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "All that waits, on one page.", body = Page<PendingTool>),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        refusals::Always,
    )
)]
pub(in crate::routes) async fn pending(
    caller: Caller,
    Segment(name): Segment,
) -> Result<Json<Page<PendingTool>>, ApiError> {
    caller.needs(Scope::ADMIN)?;
    let items = caller.services.upstreams.pending(&name).ok_or_else(|| unknown(&name))?;
    Ok(Json(Page { items, next: None }))
}

/// Approve what a server says of its tools
///
/// All of these definitions or none: one that is not, or no longer, what waits is refused with 409. They are listed when
/// this is answered. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/upstreams/{server}/approve",
    operation_id = "approveUpstream",
    tag = tag::UPSTREAMS,
    params(("server" = String, Path, description = "The server.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = ApproveUpstreamParams,
    responses(
        (status = 200, description = "What was approved, and what still waits.", body = UpstreamApproval),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::ForBody,
        refusals::Always,
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
    let asked = json!({ "name": name, "tools": params.tools });
    let approval = recorded(caller, APPROVE, asked.clone(), async move |services| {
        let approved = services.upstreams.approve(&name, &params.tools, &by).await;
        let approval = approved.map_err(|error| refused(&name, error))?;
        Ok((asked, approval))
    });
    Ok(Json(approval.await?))
}

fn refused(name: &str, error: ApproveError) -> ApiError {
    match error {
        ApproveError::NoServer => unknown(name),
        ApproveError::Other(tool) => {
            let tool: String = tool.chars().filter(|c| !c.is_control()).take(64).collect();
            let message = format!("{tool} is not what waits to be approved now, and nothing was approved");
            ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message)
                .hint("Look at what waits again: it may have changed.")
        }
        ApproveError::Store(error) => error.into(),
    }
}
