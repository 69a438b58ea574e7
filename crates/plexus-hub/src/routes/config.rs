//! `/api/v1/config`.

use axum::Json;
use plexus_kit::Config;
use plexus_proto::api::{ConfigItem, EffectiveConfig};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{refusals, tag};
use crate::App;
use crate::http::{ApiError, Caller};

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Show the configuration
///
/// What the hub runs with, without what is secret. Needs the scope `read:config`.
#[utoipa::path(
    get,
    path = "/config",
    operation_id = "getConfig",
    tag = tag::HUB,
    responses((status = 200, description = "The settings.", body = EffectiveConfig), refusals::Always)
)]
pub(super) async fn show(caller: Caller) -> Result<Json<EffectiveConfig>, ApiError> {
    caller.needs("read:config")?;
    Ok(Json(EffectiveConfig { items: items(&caller.services.config) }))
}

fn items(config: &Config) -> Vec<ConfigItem> {
    let limits = &config.limits;
    let settings: Vec<(&str, Value)> = vec![
        ("data_dir", json!(config.data_dir.display().to_string())),
        ("listen", json!(config.listen.to_string())),
        // It may carry a password.
        ("database_url", json!(config.database_url.as_ref().map(|_| "[redacted]"))),
        ("durability", json!(config.durability.as_str())),
        ("public_url", json!(config.public_url)),
        ("allowed_hosts", json!(config.allowed_hosts)),
        ("allowed_origins", json!(config.allowed_origins)),
        ("auth.authorization_servers", json!(config.authorization_servers)),
        ("limits.body_bytes", json!(limits.body_bytes)),
        ("limits.json_depth", json!(limits.json_depth)),
        ("limits.request_seconds", json!(limits.request_seconds)),
        ("limits.calls_per_principal", json!(limits.calls_per_principal)),
        ("limits.output_bytes", json!(limits.output_bytes)),
        ("limits.mcp_sessions", json!(limits.mcp_sessions)),
    ];
    let item = |(key, value): (&str, Value)| ConfigItem {
        key: key.to_owned(),
        value,
        origin: "unknown".to_owned(),
        reloadable: false,
    };
    settings.into_iter().map(item).collect()
}
