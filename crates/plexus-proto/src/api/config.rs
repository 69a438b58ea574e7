//! `/api/v1/config`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One setting in effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigSetting {
    /// Its path in the configuration file, such as `limits.body_bytes`.
    pub key: String,
    /// Without what is secret in it; null where nothing is set.
    pub value: Value,
    /// `default`, a variable, a flag, or a file with the number of the line.
    pub origin: String,
    /// Whether a running hub takes a new value on SIGHUP.
    pub reloadable: bool,
}
