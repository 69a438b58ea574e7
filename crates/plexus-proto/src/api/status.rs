//! `/api/v1/status`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AuditHead, UpstreamCounts};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub version: String,
    pub instance_id: String,
    pub started_at: Timestamp,
    pub uptime_seconds: u64,
    /// `sqlite`; never the URL, which may carry a password.
    pub database: String,
    /// Where the database is, without user and password.
    #[serde(default)]
    #[schema(required)]
    pub database_location: String,
    /// Tells this hub's database from others; a copy has the same.
    #[serde(default)]
    #[schema(required)]
    pub store_id: String,
    /// The data folder, on the hub's machine.
    #[serde(default)]
    #[schema(required)]
    pub data_dir: String,
    /// What a crash may cost: `process` or `power`.
    #[schema(pattern = "^(process|power)$")]
    pub durability: String,
    pub tools: usize,
    /// User-defined tools that are switched on and cannot be called, because something about them is wrong.
    #[serde(default)]
    #[schema(required)]
    pub broken_tools: usize,
    /// The MCP servers behind the hub.
    pub upstreams: UpstreamCounts,
    pub mcp_sessions: usize,
    pub calls_in_flight: usize,
    pub audit: AuditStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditStatus {
    #[schema(required)]
    pub head: Option<AuditHead>,
    /// Whether the newest entries matched the signed head when the hub started, now and ever before.
    pub intact_at_start: bool,
}
