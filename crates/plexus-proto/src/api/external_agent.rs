//! `/api/v1/external-agents`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An agent of someone else on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgent {
    /// Tells it from all others: machine, agent, and project where it is connected for one only.
    pub id: String,
    /// Such as `codex`.
    pub agent: String,
    /// Such as `Codex`.
    pub name: String,
    /// The machine it is on, by the name of its node.
    pub node: String,
    /// The project it is connected for; none: for all.
    #[schema(required)]
    pub project: Option<String>,
    pub state: ExternalAgentState,
    /// As its program says.
    #[schema(required)]
    pub version: Option<String>,
    /// The release that Plexus is tested with; none: it is untested.
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
    /// It is there, and not wired to the hub.
    Found,
    Connected,
    /// Its instructions are left as they are.
    Paused,
    /// One of its files is not as it was left, or could not be written.
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

/// A file of the agent with something of Plexus in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentFile {
    pub path: String,
    pub part: ExternalAgentPart,
    pub state: ExternalAgentFileState,
    /// SHA-256 of the file as Plexus left it; none: it was not written.
    #[schema(required)]
    pub hash: Option<String>,
    #[schema(required)]
    pub written_at: Option<Timestamp>,
    /// What is wrong with it, and what to do.
    #[schema(required)]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExternalAgentPart {
    /// The entry among its MCP servers.
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
    /// What is ours is as it was left.
    Current,
    /// Somebody has changed what is ours; it is not overwritten.
    Changed,
    /// Somebody has removed what is ours.
    Removed,
    /// It cannot be read or written.
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

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentSync {
    /// Agents that were looked at.
    pub agents: usize,
    /// Files that were written, because what belongs in them has changed.
    pub written: Vec<String>,
    /// What could not be written, and what to do.
    pub problems: Vec<String>,
}

/// `GET /api/v1/external-agents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgents {
    pub items: Vec<ExternalAgent>,
    /// Machines that did not say which agents they have.
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
    /// The one to sync, also if it is paused; absent: all that are not, on all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Body of `PATCH /api/v1/external-agents/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeExternalAgentParams {
    /// Whether its instructions are left as they are.
    pub paused: bool,
}

/// What was taken out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedExternalAgent {
    /// Nothing of Plexus is left in its files.
    pub gone: bool,
    /// Files that were changed or removed.
    pub written: Vec<String>,
    /// What could not be taken out, and what to do.
    pub problems: Vec<String>,
}

/// What belongs in the instructions of agents, as the hub has it: `GET /api/v1/external-agents/instructions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExternalAgentInstructions {
    /// Folder of the hub that they are in.
    pub folder: String,
    /// In the order that they are written in.
    pub files: Vec<InstructionFile>,
    /// Most bytes of them in one file of an agent.
    pub max_bytes: usize,
    /// Agents that get them; empty: all.
    pub agents: Vec<String>,
    /// Between two looks at the files of agents.
    pub minutes: u64,
}

/// A file such as `USER.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstructionFile {
    pub name: String,
    pub text: String,
}
