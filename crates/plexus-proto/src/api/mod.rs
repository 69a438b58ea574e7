//! REST types of `/api/v1`, one file per resource.

mod audit;
mod config;
mod context;
mod external_agent;
mod key;
mod node;
mod outbox;
mod profile;
mod session;
mod session_stats;
mod status;
mod token;
mod tool;
mod tool_cost;
mod tool_defined;
mod upstream;
mod upstream_change;
mod upstream_login;
mod upstream_trust;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use audit::{AuditCall, AuditEntry, AuditHead, AuditPhase, AuditProblem, AuditReport, ProblemKind};
pub use config::ConfigSetting;
pub use context::{Context, ContextNode, ContextToken};
pub use external_agent::{
    ChangeExternalAgentParams, ExternalAgent, ExternalAgentFile, ExternalAgentFileState,
    ExternalAgentInstructions, ExternalAgentPart, ExternalAgentState, ExternalAgentSync, ExternalAgents,
    ExternalAgentsUnanswered, InstructionFile, RemovedExternalAgent, SyncExternalAgentsParams,
};
pub use key::{Key, KeyState, RotateKeysParams, RotatedKey};
pub use node::{
    ChangeNodeParams, InviteNodeParams, JoinNodeParams, Node, NodeCredential, NodeInvite, NodeServer,
    NodeState, NodeTransport, PendingInvite, RemovedNode,
};
pub use outbox::{DeadLetter, MAX_DEAD_LETTERS, TellLettersParams, TellLettersResponse};
pub use profile::{Profile, ProfileDescription, ProfileDetail, ProfileProblem, ProfileRun, ProfileServer};
pub use session::{
    AppendEvent, AppendEventsParams, AppendEventsResponse, CreateSessionParams, MAX_EVENTS, Session,
};
pub use session_stats::{CallStats, QueuedStats, RunStats, SessionStats, ToolStats};
pub use status::{AuditStatus, Status};
pub use token::{
    CreateTokenParams, CreatedToken, RotateTokenParams, Token, TokenDetail, TokenKind, TokenState,
};
pub use tool::{CallToolParams, CallToolResponse, Tool, ToolAction, ToolAnnotations};
pub use tool_cost::{ServerCost, ToolCost, ToolsCost, UnlistedCost};
pub use tool_defined::{ArgumentProblem, DefinedTool, DefinedToolState, DefinedTools, EnabledBy, ToolTrial};
pub use upstream::{
    ReloadFailure, ReloadReport, Upstream, UpstreamEra, UpstreamFailure, UpstreamState, UpstreamTransport,
};
pub use upstream_change::{
    AddUpstreamParams, ImportUpstreamsParams, ImportedUpstream, RemovedUpstream, SkippedUpstream,
    TestUpstreamParams, UpstreamCounts, UpstreamDetail, UpstreamImport, UpstreamLogs, UpstreamTest,
};
pub use upstream_login::{BeginLoginParams, FinishLoginParams, UpstreamLogin, UpstreamLogout};
pub use upstream_trust::{
    ApproveUpstreamParams, ApprovedDefinition, FlagKind, FlaggedTool, INSTRUCTIONS, PendingTool,
    QuarantineReason, QuarantinedTool, ToolApproval, ToolFlag, UpstreamApproval,
};

/// A page of a list: the items, and the cursor of the next page if there are more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    #[schema(required)]
    pub next: Option<String>,
}
