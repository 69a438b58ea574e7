//! All routes, and what every request passes on its way to them.

mod audit;
mod health;
mod mcp;
mod metrics;
mod query;
mod sessions;
mod status;
mod tokens;
mod tools;
mod well_known;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::App;
use crate::http::{ApiError, finish, guard, observe};

pub(crate) fn router(app: App) -> Router {
    let mcp = || post(mcp::post).get(mcp::get).delete(mcp::delete);
    let api = Router::new()
        .route("/status", get(status::show))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", get(tools::show))
        .route("/tools/{name}/call", post(tools::call))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{id}", get(sessions::show))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{jti}", axum::routing::delete(tokens::revoke))
        .route("/audit", get(audit::list))
        .route("/audit/verify", get(audit::verify))
        .route("/audit/{call_id}", get(audit::show));
    Router::new()
        .route("/", get(health::root))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::show))
        .route("/mcp", mcp())
        .route("/mcp/", mcp())
        .route("/mcp/v1", mcp())
        .route("/mcp/v1/", mcp())
        .route("/.well-known/oauth-protected-resource", get(well_known::root))
        .route("/.well-known/oauth-protected-resource/{*path}", get(well_known::resource))
        .nest("/api/v1", api)
        .fallback(|| async { ApiError::not_found("there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            let status = http::StatusCode::METHOD_NOT_ALLOWED;
            ApiError::new(
                status,
                plexus_proto::ErrorCode::InvalidRequest,
                "this path does not take this method",
            )
        })
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn(finish))
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app)
}
