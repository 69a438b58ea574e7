//! `/api/v1/config`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The configuration the hub runs with; what is secret is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveConfig {
    pub items: Vec<ConfigItem>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigItem {
    /// As in the configuration file, such as `limits.body_bytes`.
    pub key: String,
    /// Null where nothing is set.
    pub value: Value,
    /// Which layer it came from.
    pub origin: String,
    /// Whether a reload takes a new value; else a restart does.
    pub reloadable: bool,
}
