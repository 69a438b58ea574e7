//! The answer to a write that was accepted on its way to the hub, and not carried out yet: what the local proxy says while
//! the hub is away. Output schemas of tools whose calls may be buffered allow it beside the tool's own answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The write was kept on its way and is sent when the hub is back; the tool has not run yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuedWrite {
    /// Always true: the write is kept and will be sent, and the hub has not carried it out yet.
    #[schemars(extend("const" = true))]
    queued: bool,
    /// Name of the tool.
    pub tool: String,
    /// What the write is known by, here and at the hub.
    pub idempotency_key: String,
    /// What that means, for whoever reads it.
    pub note: String,
}

impl QueuedWrite {
    #[must_use]
    pub fn new(tool: impl Into<String>, idempotency_key: impl Into<String>, note: impl Into<String>) -> Self {
        Self { queued: true, tool: tool.into(), idempotency_key: idempotency_key.into(), note: note.into() }
    }
}
