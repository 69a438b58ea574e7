//! `/api/v1/config`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One setting in effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfigSetting {
    /// Its path in the configuration file, such as `limits.body_bytes`.
    pub key: String,
    /// Without what is secret in it.
    pub value: Value,
    /// `default`, a variable, a flag, or a file with the number of the line.
    pub origin: String,
    /// Whether a running hub takes a new value on SIGHUP.
    pub reloadable: bool,
}
