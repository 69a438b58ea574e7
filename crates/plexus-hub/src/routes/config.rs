//! `/api/v1/config`.

use axum::Json;
use plexus_proto::api::{ConfigSetting, Page};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::tag;
use crate::App;
use crate::http::{ApiError, Caller};

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Show the configuration
///
/// The hub's effective settings, with secrets removed. Needs the scope `read:config`.
#[utoipa::path(
    get,
    path = "/config",
    operation_id = "getConfig",
    tag = tag::HUB,
    responses((status = 200, description = "The settings.", body = Page<ConfigSetting>))
)]
pub(super) async fn show(caller: Caller) -> Result<Json<Page<ConfigSetting>>, ApiError> {
    caller.require_scope("read:config")?;
    Ok(Json(Page { items: caller.services.config.load().settings.report(), next: None }))
}
