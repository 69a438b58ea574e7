//! All routes, and the middleware that every request passes.

mod audit;
mod config;
mod context;
mod events;
mod external_agents;
mod health;
mod keys;
mod mcp;
mod metrics;
mod node_link;
mod nodes;
mod openapi;
mod outbox;
mod profiles;
mod query;
mod refusals;
mod session_stats;
mod sessions;
mod status;
mod streams;
mod tag;
mod tokens;
mod tool_cost;
mod tool_defined;
mod tools;
mod upstreams;
mod well_known;

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use http::header::ALLOW;
use http::{Method, StatusCode};
use plexus_proto::ErrorCode;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::http::{ApiError, finish, guard, observe};

pub(crate) fn router(app: App) -> Router {
    // A HEAD request would open the event stream of a session and displace the one that is being read.
    let no_head = async || ([(ALLOW, "DELETE,GET,POST")], other_method(Method::HEAD).await);
    let mcp = || post(mcp::post).get(mcp::get).head(no_head).delete(mcp::delete);
    let (api, document) = api().split_for_parts();
    let document = Arc::new(openapi::Document::new(&document));
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
        .merge(api.layer(Extension(document)))
        .merge(streams::router())
        .merge(node_link::router())
        .fallback(|| async { ApiError::not_found("nothing exists at this path") })
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn(finish))
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app)
}

/// The REST API. Each route and its description are one declaration, so neither can be missing.
fn api() -> OpenApiRouter<App> {
    let resources = OpenApiRouter::new()
        .merge(status::router())
        .merge(config::router())
        .merge(context::router())
        .merge(tools::router())
        .merge(tool_cost::router())
        .merge(tool_defined::router())
        .merge(upstreams::router())
        .merge(nodes::router())
        .merge(external_agents::router())
        .merge(sessions::router())
        .merge(session_stats::router())
        .merge(events::router())
        .merge(outbox::router())
        .merge(streams::describable_router())
        .merge(profiles::router())
        .merge(tokens::router())
        .merge(keys::router())
        .merge(audit::router())
        .routes(routes!(openapi::show));
    let mut api = OpenApiRouter::with_openapi(openapi::frame()).nest("/api/v1", resources);
    openapi::describe_refusals(api.get_openapi_mut());
    openapi::describe_caching(api.get_openapi_mut());
    api
}

/// The OpenAPI document, as committed and served.
pub(crate) fn document() -> Result<String, serde_json::Error> {
    let document: OpenApi = api().into_openapi();
    openapi::text(&document)
}

/// Refuses a method that the path does not support; the supported methods are added to `Allow` on the way out.
async fn other_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = "this path does not support this method";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::InvalidRequest, message)
        .hint("The header Allow lists the supported methods.")
        .into_response()
}
