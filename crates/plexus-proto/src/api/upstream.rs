//! `/api/v1/upstreams`: the hub's upstream MCP servers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FlaggedTool, QuarantinedTool};
use crate::Timestamp;

/// Transport between the hub and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamTransport {
    /// A child process, over its standard input and output.
    Stdio,
    /// The HTTP transport of revision 2024-11-05: an event stream and a URL to post to.
    Sse,
    StreamableHttp,
}

impl UpstreamTransport {
    /// The transport as written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Sse => "sse",
            Self::StreamableHttp => "streamable_http",
        }
    }
}

/// Whether a server keeps sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamEra {
    /// Revisions 2024-11-05 to 2025-11-25.
    Session,
    /// Revision 2026-07-28.
    Stateless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    /// Disabled in its file.
    Disabled,
    /// Its file is invalid; see `last_error`.
    Invalid,
    /// Stopped while unused because its file sets `lazy`; the next call starts it.
    Idle,
    /// Starting or connecting.
    Starting,
    /// Ready for calls.
    Ready,
    /// Unreachable; another attempt follows. Its tools stay listed for a while.
    Down,
    /// Crashed too often in a row. Not retried until it is restarted, its file changes, or a long time has
    /// passed.
    Failed,
    /// A login is required or has expired; `last_error` names the command to log in.
    NeedsLogin,
}

impl UpstreamState {
    /// The state as written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Invalid => "invalid",
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::Failed => "failed",
            Self::NeedsLogin => "needs_login",
        }
    }
}

/// The most recent failure of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamFailure {
    pub at: Timestamp,
    /// What happened, and how to fix it.
    pub message: String,
    /// The last lines that the process wrote to its standard error.
    pub stderr: Vec<String>,
}

/// A server and its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upstream {
    /// Name of its file, without the extension.
    pub name: String,
    /// The server's part of its tool names.
    pub slug: String,
    pub state: UpstreamState,
    /// Null if its file is invalid.
    #[schema(required)]
    pub transport: Option<UpstreamTransport>,
    /// Negotiated protocol revision; null before the first contact.
    #[schema(required)]
    pub revision: Option<String>,
    #[schema(required)]
    pub era: Option<UpstreamEra>,
    /// Name and version reported by the server.
    #[schema(required)]
    pub server: Option<String>,
    /// Names under which its tools are listed now.
    pub tools: Vec<String>,
    /// Process id of a running stdio server.
    #[schema(required)]
    pub pid: Option<u32>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Restarts and reconnects since the hub started.
    pub restarts: u64,
    /// Time of the next attempt.
    #[schema(required)]
    pub retry_at: Option<Timestamp>,
    /// Number of running calls.
    pub in_flight: usize,
    #[schema(required)]
    pub last_error: Option<UpstreamFailure>,
    /// What the server does while it is starting and has not yet identified itself; admins only.
    #[serde(default)]
    #[schema(required)]
    pub remark: Option<String>,
    /// Suspicious but harmless settings in its configuration.
    pub warnings: Vec<String>,
    /// Tools that are not listed until approved; admins only.
    #[serde(default)]
    #[schema(required)]
    pub quarantined: Vec<QuarantinedTool>,
    /// Tools that are listed although they were flagged; admins only.
    #[serde(default)]
    #[schema(required)]
    pub flagged: Vec<FlaggedTool>,
    /// Path of its file.
    pub file: String,
}

/// Result of reloading the server files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReloadReport {
    /// Server names.
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
    /// Servers whose file is invalid or that did not start; other servers are not affected.
    pub failed: Vec<ReloadFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadFailure {
    pub name: String,
    pub message: String,
}
