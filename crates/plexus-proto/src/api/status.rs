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
    /// Such as `sqlite`; never the URL, which may contain a password.
    pub database: String,
    /// The file of SQLite, or the name and address of a PostgreSQL database, without user and password.
    #[serde(default)]
    #[schema(required)]
    pub database_location: String,
    /// Identifies the hub's database; a copy has the same id.
    #[serde(default)]
    #[schema(required)]
    pub store_id: String,
    /// The data folder, on the hub's machine.
    #[serde(default)]
    #[schema(required)]
    pub data_dir: String,
    /// Which failures acknowledged writes survive: `process` or `power`.
    #[schema(pattern = "^(process|power)$")]
    pub durability: String,
    pub tools: usize,
    /// User-defined tools that are enabled but cannot be called because of an error.
    #[serde(default)]
    #[schema(required)]
    pub broken_tools: usize,
    /// The hub's upstream MCP servers.
    pub upstreams: UpstreamCounts,
    pub mcp_sessions: usize,
    pub calls_in_flight: usize,
    pub audit: AuditStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditStatus {
    #[schema(required)]
    pub head: Option<AuditHead>,
    /// Whether the newest entries matched the signed head at this and every earlier start of the hub.
    pub intact_at_start: bool,
}
