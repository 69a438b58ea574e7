//! `/api/v1/external-agents`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A third-party agent on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgent {
    /// Unique id: machine, agent, and the project if the agent is connected for one project only.
    pub id: String,
    /// Such as `codex`.
    pub agent: String,
    /// Such as `Codex`.
    pub name: String,
    /// Name of the node that the agent is on.
    pub node: String,
    /// The project that the agent is connected for; null for all projects.
    #[schema(required)]
    pub project: Option<String>,
    pub state: ExternalAgentState,
    /// As reported by the agent's program.
    #[schema(required)]
    pub version: Option<String>,
    /// The release that Plexus is tested with; null if the agent is untested.
    #[schema(required)]
    pub tested: Option<String>,
    #[schema(required)]
    pub connected_at: Option<Timestamp>,
    #[schema(required)]
    pub last_sync_at: Option<Timestamp>,
    pub files: Vec<ExternalAgentFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExternalAgentState {
    /// Installed, but not connected to the hub.
    Found,
    Connected,
    /// Its instructions are not updated.
    Paused,
    /// One of its files was changed by another program or could not be written.
    Attention,
}

impl ExternalAgentState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Connected => "connected",
            Self::Paused => "paused",
            Self::Attention => "attention",
        }
    }
}

/// A file of the agent that contains Plexus entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentFile {
    pub path: String,
    pub part: ExternalAgentPart,
    pub state: ExternalAgentFileState,
    /// SHA-256 of the file after the last write by Plexus; null if it was not written.
    #[schema(required)]
    pub hash: Option<String>,
    #[schema(required)]
    pub written_at: Option<Timestamp>,
    /// What is wrong with the file, and how to fix it.
    #[schema(required)]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExternalAgentPart {
    /// The entry in the agent's list of MCP servers.
    Server,
    Instructions,
}

impl ExternalAgentPart {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Instructions => "instructions",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExternalAgentFileState {
    /// The Plexus entries are unchanged since the last write.
    Current,
    /// Another program changed the Plexus entries; they are not overwritten.
    Changed,
    /// Another program removed the Plexus entries.
    Removed,
    /// The file cannot be read or written.
    Blocked,
}

impl ExternalAgentFileState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Blocked => "blocked",
        }
    }
}

/// Result of a sync.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentSync {
    /// Number of agents that were checked.
    pub agents: usize,
    /// Files that were written because their content was outdated.
    pub written: Vec<String>,
    /// Files that could not be written, and how to fix them.
    pub problems: Vec<String>,
}

/// `GET /api/v1/external-agents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgents {
    pub items: Vec<ExternalAgent>,
    /// Machines that did not report their agents.
    pub unanswered: Vec<ExternalAgentsUnanswered>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentsUnanswered {
    pub node: String,
    pub why: String,
}

/// Body of `POST /api/v1/external-agents/sync`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncExternalAgentsParams {
    /// The agent to sync, even if it is paused; absent: all agents that are not paused, on all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Body of `PATCH /api/v1/external-agents/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeExternalAgentParams {
    /// Whether updates of its instructions are suspended.
    pub paused: bool,
}

/// Result of disconnecting an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedExternalAgent {
    /// Whether its files contain no Plexus entries any more.
    pub gone: bool,
    /// Files that were changed or removed.
    pub written: Vec<String>,
    /// Entries that could not be removed, and how to remove them.
    pub problems: Vec<String>,
}

/// The instructions for agents, as stored on the hub: `GET /api/v1/external-agents/instructions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentInstructions {
    /// The folder on the hub that contains them.
    pub folder: String,
    /// In the order in which they are written.
    pub files: Vec<InstructionFile>,
    /// Maximum size in bytes of the instructions in one agent file.
    pub max_bytes: usize,
    /// Agents that receive the instructions; empty for all.
    pub agents: Vec<String>,
    /// Minutes between two checks of the agents' files.
    pub minutes: u64,
}

/// A file such as `USER.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstructionFile {
    pub name: String,
    pub text: String,
}
