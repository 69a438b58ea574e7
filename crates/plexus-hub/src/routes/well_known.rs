//! RFC 9728: protected resource metadata, which names the hub's authorization server if it has one.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::App;
use crate::http::ApiError;

pub(super) async fn root(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    metadata(&app, "")
}

pub(super) async fn resource(
    State(app): State<App>,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let path = path.trim_end_matches('/');
    if matches!(path, "mcp" | "mcp/v1") { metadata(&app, path) } else { Err(not_found()) }
}

fn metadata(app: &App, path: &str) -> Result<Json<Value>, ApiError> {
    let config = app.config.load();
    if config.authorization_servers.is_empty() {
        return Err(not_found());
    }
    let path = if path.is_empty() { "mcp" } else { path };
    Ok(Json(json!({
        "resource": format!("{}/{path}", app.public_url()),
        "authorization_servers": config.authorization_servers,
        "bearer_methods_supported": ["header"],
        "resource_name": "Plexus",
    })))
}

fn not_found() -> ApiError {
    ApiError::not_found("nothing exists at this path")
}
