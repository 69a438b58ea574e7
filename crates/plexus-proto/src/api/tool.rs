//! `/api/v1/tools`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, SessionId};

/// Hints for clients, in MCP's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    pub read_only_hint: bool,
    pub destructive_hint: bool,
    pub idempotent_hint: bool,
    pub open_world_hint: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolAction {
    pub name: String,
    pub scope: String,
    pub annotations: ToolAnnotations,
    /// Whether the local proxy may accept the call while the hub is away.
    pub bufferable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub title: String,
    pub description: String,
    /// `hub`, later also a node or an upstream server.
    pub placement: String,
    pub scope: String,
    pub annotations: ToolAnnotations,
    pub actions: Vec<ToolAction>,
    pub deadline_seconds: u64,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallToolParams {
    #[serde(default)]
    pub arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToolResponse {
    pub call_id: CallId,
    pub session_id: SessionId,
    /// Canonical name, whatever spelling the caller used.
    pub tool: String,
    pub success: bool,
    /// The result of an earlier call with the same idempotency key.
    pub replayed: bool,
    pub text: String,
    pub structured: Option<Value>,
}
