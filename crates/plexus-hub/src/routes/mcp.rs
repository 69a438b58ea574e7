//! The MCP endpoint. The caller is authenticated before anything of the request is read or looked up.

use axum::extract::Request;
use axum::response::Response;

use crate::http::{ApiError, Caller};

pub(super) async fn post(caller: Caller, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = caller.read_body(&parts.headers, body).await?;
    Ok(caller.services.mcp.post(&parts.headers, body, caller.principal).await)
}

pub(super) async fn get(caller: Caller, request: Request) -> Response {
    caller.services.mcp.get(request.headers(), caller.principal).await
}

pub(super) async fn delete(caller: Caller, request: Request) -> Response {
    caller.services.mcp.delete(request.headers(), caller.principal).await
}
