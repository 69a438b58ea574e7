//! `/api/v1/status`.

use axum::Json;
use plexus_proto::api::{
    AuditStatus, DefinedTool, DefinedToolState, Status, Upstream, UpstreamCounts, UpstreamState,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::tag;
use crate::App;
use crate::http::{ApiError, Caller};

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Show the status of the hub
///
/// Needs the scope `read:status`.
#[utoipa::path(
    get,
    path = "/status",
    operation_id = "getStatus",
    tag = tag::HUB,
    responses((status = 200, description = "The status.", body = Status))
)]
pub(super) async fn show(caller: Caller) -> Result<Json<Status>, ApiError> {
    // The status reveals the activity of other callers.
    caller.require_scope("read:status")?;
    let services = &caller.services;
    let config = services.config.load();
    let uptime = services.clock.now().as_second() - services.started_at.as_second();
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance_id: services.store.instance_id().to_owned(),
        started_at: services.started_at,
        uptime_seconds: u64::try_from(uptime).unwrap_or(0),
        database: services.store.database().to_owned(),
        database_location: services.store.location().place(&config.data_dir),
        store_id: services.store.id().to_string(),
        data_dir: config.data_dir.display().to_string(),
        durability: config.durability.as_str().to_owned(),
        tools: services.dispatcher.registry().len(),
        broken_tools: services.custom.list().iter().filter(|tool| is_broken(tool)).count(),
        upstreams: counts(&services.upstreams.list(), caller.principal.is_admin()),
        mcp_sessions: services.mcp.session_count(),
        calls_in_flight: services.dispatcher.in_flight(),
        audit: AuditStatus {
            head: services.store.audit_heads().borrow().clone(),
            intact_at_start: services.audit_intact_at_start,
        },
    }))
}

fn is_broken(tool: &DefinedTool) -> bool {
    tool.enabled_by.is_some() && tool.state == DefinedToolState::Invalid
}

/// The number of quarantined tools is for admins only.
fn counts(upstreams: &[Upstream], admin: bool) -> UpstreamCounts {
    let of = |state| upstreams.iter().filter(|upstream| upstream.state == state).count();
    UpstreamCounts {
        total: upstreams.len(),
        ready: of(UpstreamState::Ready),
        starting: of(UpstreamState::Starting),
        idle: of(UpstreamState::Idle),
        disabled: of(UpstreamState::Disabled),
        down: of(UpstreamState::Down),
        failed: of(UpstreamState::Failed),
        invalid: of(UpstreamState::Invalid),
        needs_login: of(UpstreamState::NeedsLogin),
        quarantined: upstreams.iter().filter(|_| admin).map(|upstream| upstream.quarantined.len()).sum(),
    }
}
