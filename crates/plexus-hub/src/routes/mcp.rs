//! The MCP endpoint: nothing is read or looked up before the caller is known.

use axum::extract::{Request, State};
use axum::response::Response;

use crate::App;
use crate::http::{ApiError, Caller, authenticate, read_body};

pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let services = app.services()?;
    let principal = authenticate(&app, &services, request.headers())?;
    let (parts, body) = request.into_parts();
    let body = read_body(body, &services.config.limits).await?;
    Ok(services.mcp.post(&parts.headers, body, principal).await)
}

pub(super) async fn get(caller: Caller, request: Request) -> Response {
    caller.services.mcp.get(request.headers(), caller.principal).await
}

pub(super) async fn delete(caller: Caller, request: Request) -> Response {
    caller.services.mcp.delete(request.headers(), caller.principal).await
}
