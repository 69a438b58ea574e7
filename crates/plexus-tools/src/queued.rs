//! The result of a queued write: the local proxy returns it while the hub is unreachable. The output schema of a tool
//! whose calls may be queued allows it besides the tool's own result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The write is queued until the hub is reachable again; the tool has not run yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuedWrite {
    /// Always true: the write is stored and will be sent, and the hub has not executed it yet.
    #[schemars(extend("const" = true))]
    queued: bool,
    /// Name of the tool.
    pub tool: String,
    /// Idempotency key of the write, here and at the hub.
    pub idempotency_key: String,
    /// Explains the state of the write.
    pub note: String,
}

impl QueuedWrite {
    #[must_use]
    pub fn new(tool: impl Into<String>, idempotency_key: impl Into<String>, note: impl Into<String>) -> Self {
        Self { queued: true, tool: tool.into(), idempotency_key: idempotency_key.into(), note: note.into() }
    }
}
