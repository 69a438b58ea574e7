//! User-defined tools: `/api/v1/tools/-/defined`, and what switches them and tries them out.
//!
//! To let the hub run a program is for admins on its own machine, as it is for MCP servers that are programs.

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
use super::upstreams::gate::{self, Whence};
use super::upstreams::record::recorded;
use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

/// Names of these operations in the audit.
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
/// Every tool that there is a manifest for, also those that are off or wrong, with what is wrong. Needs the scope `admin`.
#[utoipa::path(
    get,
    path = "/tools/-/defined",
    operation_id = "listDefinedTools",
    tag = tag::TOOLS,
    responses((status = 200, description = "The tools.", body = DefinedTools), refusals::Always)
)]
pub(super) async fn list(caller: Caller) -> Result<Json<DefinedTools>, ApiError> {
    caller.needs(Scope::ADMIN)?;
    let custom = caller.services.custom.clone();
    let dir = custom.dir().display().to_string();
    // As the folder is now: who has just made one looks here next.
    let items = in_background(move || {
        custom.reload();
        Ok(custom.list())
    });
    Ok(Json(DefinedTools { dir, items: items.await? }))
}

/// Switch a user-defined tool on
///
/// From then on it can be called, over a restart too. Needs the scope `admin`, on the hub's own machine.
#[utoipa::path(
    post,
    path = "/tools/{name}/enable",
    operation_id = "enableTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses(
        (status = 200, description = "The tool.", body = DefinedTool),
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::Always,
    )
)]
pub(super) async fn enable(
    caller: Caller,
    whence: Whence,
    Segment(name): Segment,
) -> Result<Json<DefinedTool>, ApiError> {
    let asked = json!({ "name": name });
    let enabled = recorded(caller, ENABLE, asked.clone(), async move |services| {
        gate::must_be_here(&whence, "user-defined tools are switched on")?;
        let (custom, on) = (services.custom.clone(), name.clone());
        let tool = in_background(move || custom.enable(&on)).await?;
        Ok((json!({ "name": name, "file": tool.file }), tool))
    });
    Ok(Json(enabled.await?))
}

/// Switch a user-defined tool off
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
        (status = 400, response = refusals::BadRequest),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::Always,
    )
)]
pub(super) async fn disable(caller: Caller, Segment(name): Segment) -> Result<Json<DefinedTool>, ApiError> {
    let asked = json!({ "name": name });
    let disabled = recorded(caller, DISABLE, asked.clone(), async move |services| {
        let custom = services.custom.clone();
        Ok((asked, in_background(move || custom.disable(&name)).await?))
    });
    Ok(Json(disabled.await?))
}

/// Try a user-defined tool out
///
/// Calls it for real, also one that is off, and tells what is wrong with the arguments, what it gave, how its program ended,
/// its standard error and how long it took. Needs the scope `admin`, on the hub's own machine.
#[utoipa::path(
    post,
    path = "/tools/{name}/test",
    operation_id = "testTool",
    tag = tag::TOOLS,
    params(("name" = String, Path, description = "The tool.", pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body = CallToolParams,
    responses(
        (status = 200, description = "How it went, also when it did not work.", body = ToolTrial),
        (status = 404, response = refusals::NotFound),
        (status = 409, response = refusals::Conflict),
        refusals::ForBody,
        refusals::Always,
    )
)]
pub(super) async fn test(
    caller: Caller,
    whence: Whence,
    Segment(name): Segment,
    request: Request,
) -> Result<Json<ToolTrial>, ApiError> {
    let params: CallToolParams = caller.read_json(request, "arguments to try out").await?;
    let (asked, principal) = (json!({ "name": name }), caller.principal.clone());
    let tested = recorded(caller, TEST, asked.clone(), async move |services| {
        gate::must_be_here(&whence, "user-defined tools are tried out")?;
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
        let mut done = asked;
        done["call_id"] = json!(trial.call_id);
        done["success"] = json!(trial.success);
        Ok((done, trial))
    });
    Ok(Json(tested.await?))
}

/// Off the workers: files are read and written.
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
        CustomError::Invalid(_) => conflict(error.to_string()).hint("Correct it, and try again."),
        CustomError::Configured(_) => {
            conflict(error.to_string()).hint("Take it out there and send the hub SIGHUP.")
        }
        CustomError::Io(ref cause) => ApiError::internal("switching a tool", cause),
    }
}
