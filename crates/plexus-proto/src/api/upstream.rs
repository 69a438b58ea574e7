//! `/api/v1/upstreams`: the MCP servers behind the hub.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{FlaggedTool, QuarantinedTool};
use crate::Timestamp;

/// How the hub talks to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamTransport {
    /// A process of the hub, over its standard input and output.
    Stdio,
    /// The HTTP transport of 2024-11-05: an event stream, and an address to post to.
    Sse,
    StreamableHttp,
}

impl UpstreamTransport {
    /// The transport as it stands in JSON.
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
    /// 2024-11-05 to 2025-11-25.
    Session,
    /// 2026-07-28.
    Stateless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    /// Its file says that it is off.
    Disabled,
    /// Its file is wrong; `last_error` says what and where.
    Invalid,
    /// Rests, since its file has `lazy` and nobody needs it now; the next call starts it.
    Idle,
    /// Being started or connected to.
    Starting,
    /// Answers.
    Ready,
    /// Not there; another attempt follows. Its tools stay listed for a while.
    Down,
    /// Crashed so often in a row that it is left alone: until it is restarted, its file changes, or a long while has
    /// passed.
    Failed,
    /// It wants a login, or the one it had has ended; `last_error` says which command does it.
    NeedsLogin,
}

impl UpstreamState {
    /// The state as it stands in JSON.
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

/// What went wrong with a server last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamFailure {
    pub at: Timestamp,
    /// What happened and what to do about it.
    pub message: String,
    /// The end of what the process wrote to its standard error.
    pub stderr: Vec<String>,
}

/// A server as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Upstream {
    /// Name of its file, without the ending.
    pub name: String,
    /// Its part of the names of its tools.
    pub slug: String,
    pub state: UpstreamState,
    /// Null when its file is wrong.
    #[schema(required)]
    pub transport: Option<UpstreamTransport>,
    /// Revision and era that were agreed on; null before the first contact.
    #[schema(required)]
    pub revision: Option<String>,
    #[schema(required)]
    pub era: Option<UpstreamEra>,
    /// Name and version that the server gave itself.
    #[schema(required)]
    pub server: Option<String>,
    /// Names under which its tools are listed now.
    pub tools: Vec<String>,
    /// Process of a stdio server that runs.
    #[schema(required)]
    pub pid: Option<u32>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Restarts and reconnects since the hub started.
    pub restarts: u64,
    /// When the next attempt follows.
    #[schema(required)]
    pub retry_at: Option<Timestamp>,
    /// Calls that run now.
    pub in_flight: usize,
    #[schema(required)]
    pub last_error: Option<UpstreamFailure>,
    /// While it is starting: what it does instead of saying who it is; for admins.
    #[serde(default)]
    #[schema(required)]
    pub remark: Option<String>,
    /// What is strange about its configuration but stops nothing.
    pub warnings: Vec<String>,
    /// Tools that are not listed until somebody approves them; for admins.
    #[serde(default)]
    #[schema(required)]
    pub quarantined: Vec<QuarantinedTool>,
    /// Tools that are listed although something about them is strange; for admins.
    #[serde(default)]
    #[schema(required)]
    pub flagged: Vec<FlaggedTool>,
    /// Its file.
    pub file: String,
}

/// What reading the files again has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReloadReport {
    /// Servers, by name.
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
    /// Those whose file is wrong, or that did not come up; the others go on.
    pub failed: Vec<ReloadFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReloadFailure {
    pub name: String,
    pub message: String,
}
