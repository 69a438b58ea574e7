//! User-defined tools: `/api/v1/tools/-/defined`, and the routes that enable, disable and test them.
//!
//! Only admins on the hub's own machine may let the hub run a program, as for MCP servers that are processes.

use axum::Json;
use axum::extract::Request;
use http::StatusCode;
use plexus_auth::Scope;
use plexus_proto::ErrorCode;
use plexus_proto::api::{CallToolParams, DefinedTool, DefinedTools, ToolTrial};
use plexus_tools::Via;
use plexus_tools::custom::{self, CustomError};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::query::Segment;
use super::upstreams::gate::{self, RequestOrigin};
use super::upstreams::record::recorded;
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

/// Names of these operations in the audit log.
const ENABLE: &str = "tool_enable";
const DISABLE: &str = "tool_disable";
const TEST: &str = "tool_test";

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(enable))
        .routes(routes!(disable))
        .routes(routes!(test))
}

/// List user-defined tools
///
/// Every tool with a manifest, including disabled and invalid ones, with their errors. Needs the scope `admin`.
#[utoipa::path(
    get,
    path = "/tools/-/defined",
    operation_id = "listDefinedTools",
    tag = tag::TOOLS,
    responses((status = 200, description = "The tools.", body = DefinedTools))
)]
pub(super) async fn list(caller: Caller) -> Result<Json<DefinedTools>, ApiError> {
    caller.require_scope(Scope::ADMIN)?;
    let custom = caller.services.custom.clone();
    let dir = custom.dir().display().to_string();
    // Read the folder now, because users look here right after they have added a manifest.
    let items = in_background(move || {
        custom.reload();
        Ok(custom.list())
    });
    Ok(Json(DefinedTools { dir, items: items.await? }))
}

/// Enable a user-defined tool
///
/// It can be called from now on, also after a restart. Needs the scope `admin`, on the hub's own machine.
#[utoipa::path(
    post,
    path = "/tools/{name}/enable",
    operation_id = "enableTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The tool.", body = DefinedTool),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn enable(
    caller: Caller,
    origin: RequestOrigin,
    Segment(name): Segment,
) -> Result<Json<DefinedTool>, ApiError> {
    let audit_detail = json!({ "name": name });
    let enabled = recorded(caller, ENABLE, audit_detail.clone(), async move |services| {
        gate::require_local(&origin, "user-defined tools can be enabled")?;
        let (custom, on) = (services.custom.clone(), name.clone());
        let tool = in_background(move || custom.enable(&on)).await?;
        Ok((json!({ "name": name, "file": tool.file }), tool))
    });
    Ok(Json(enabled.await?))
}

/// Disable a user-defined tool
///
/// It can no longer be called. Needs the scope `admin`.
#[utoipa::path(
    post,
    path = "/tools/{name}/disable",
    operation_id = "disableTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The tool.", body = DefinedTool),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn disable(caller: Caller, Segment(name): Segment) -> Result<Json<DefinedTool>, ApiError> {
    let audit_detail = json!({ "name": name });
    let disabled = recorded(caller, DISABLE, audit_detail.clone(), async move |services| {
        let custom = services.custom.clone();
        Ok((audit_detail, in_background(move || custom.disable(&name)).await?))
    });
    Ok(Json(disabled.await?))
}

/// Test a user-defined tool
///
/// Really calls it, even if it is disabled. Returns the errors in the arguments, the result, the exit status of its
/// program, its standard error and the duration. Needs the scope `admin`, on the hub's own machine.
#[utoipa::path(
    post,
    path = "/tools/{name}/test",
    operation_id = "testTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = CallToolParams,
    responses(
        (status = 200, description = "The result of the test, even if the call failed.", body = ToolTrial),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
    )
)]
pub(super) async fn test(
    caller: Caller,
    origin: RequestOrigin,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<ToolTrial>, ApiError> {
    let params: CallToolParams = caller.read_json(request, "a test call").await?;
    let (audit_detail, principal) = (json!({ "name": name }), caller.principal.clone());
    let tested = recorded(caller, TEST, audit_detail.clone(), async move |services| {
        gate::require_local(&origin, "user-defined tools can be tested")?;
        let custom = services.custom.clone();
        in_background(move || {
            custom.reload();
            Ok(())
        })
        .await?;
        let cancel = CancellationToken::new();
        let trial = custom::try_out(
            &services.custom,
            &services.dispatcher,
            principal,
            &name,
            params.arguments,
            Via::Rest,
            cancel,
        );
        let trial = trial.await.map_err(refused)?;
        let mut done = audit_detail;
        done["call_id"] = json!(trial.call_id);
        done["success"] = json!(trial.success);
        Ok((done, trial))
    });
    Ok(Json(tested.await?))
}

/// Runs work on the blocking pool, because it reads and writes files.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CustomError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal("reading the user-defined tools", &error))?.map_err(refused)
}

fn refused(error: CustomError) -> ApiError {
    let conflict = |message: String| ApiError::new(StatusCode::CONFLICT, ErrorCode::Conflict, message);
    match error {
        CustomError::Unknown(_) => {
            ApiError::not_found(error.to_string()).hint("`plexus tools list --defined` shows them.")
        }
        CustomError::Invalid(_) => conflict(error.to_string()).hint("Fix the manifest and try again."),
        CustomError::Configured(_) => {
            conflict(error.to_string()).hint("Remove it there and send the hub SIGHUP.")
        }
        CustomError::Io(ref cause) => ApiError::internal("changing a user-defined tool", cause),
    }
}
