//! `/api/v1/config`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An effective setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigSetting {
    /// Path in the configuration file, such as `limits.body_bytes`.
    pub key: String,
    /// The value with secrets removed; null if not set.
    pub value: Value,
    /// Source of the value: `default`, a variable, a flag, or a file with the line number.
    pub origin: String,
    /// Whether a running hub applies a new value on SIGHUP.
    pub reloadable: bool,
}
