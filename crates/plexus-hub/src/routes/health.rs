//! Health checks for process supervisors and load balancers.

use axum::extract::State;
use http::StatusCode;
use plexus_proto::ErrorCode;

use crate::App;
use crate::http::ApiError;

/// A short overview for people with a browser or curl.
pub(super) async fn root() -> &'static str {
    "This is a Plexus hub.\n\
     \x20 /mcp        MCP over Streamable HTTP, with a token\n\
     \x20 /api/v1     REST, with a token\n\
     \x20 /healthz    the process is alive\n\
     \x20 /readyz     the hub accepts requests\n\
     \x20 /metrics    Prometheus metrics, with a token\n"
}

/// Liveness: the process runs.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness: the hub accepts requests, and its database can be read and written.
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, ApiError> {
    let services = app.services()?;
    if services.draining.is_cancelled() {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Unavailable,
            "the hub is stopping",
        ));
    }
    services.store.read_committed().await?.revocation_epoch().await?;
    services.store.check_writable().await?;
    Ok("ready\n")
}
