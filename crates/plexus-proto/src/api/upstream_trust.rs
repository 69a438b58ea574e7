//! `/api/v1/upstreams/{server}/pending` and `/approve`: what servers say of their tools, and who has approved it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Timestamp;

/// What a server says to models in general has this name among its tools. No tool can have it.
pub const INSTRUCTIONS: &str = "(instructions)";

/// Why a tool is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineReason {
    /// Nobody has approved a tool of this name.
    New,
    /// It says something else than what was approved.
    Changed,
    /// It was there when the server was first seen, and something about it is strange.
    Flagged,
}

impl QuarantineReason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Flagged => "flagged",
        }
    }
}

/// What is strange about what a server says of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlagKind {
    /// Characters that nobody sees and a model reads.
    HiddenText,
    /// Words that tell a model what to do, instead of what the tool does.
    Instructions,
    /// A long run of base64 or hexadecimal digits.
    EncodedData,
    /// A control sequence of terminals.
    TerminalEscape,
    /// It says how a tool of another server is to be used.
    Shadowing,
    /// Its name looks like that of another tool.
    LookAlike,
}

impl FlagKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HiddenText => "hidden text",
            Self::Instructions => "instructions to the model",
            Self::EncodedData => "encoded data",
            Self::TerminalEscape => "a terminal escape",
            Self::Shadowing => "shadowing of another tool",
            Self::LookAlike => "a look-alike name",
        }
    }
}

/// One strange thing, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct ToolFlag {
    pub kind: FlagKind,
    /// The field, such as `description` or `inputSchema.properties.path.description`.
    pub at: String,
    /// What was found there, shortened, with hidden characters written as `<U+200B>`.
    pub found: String,
}

/// A tool that is not listed until somebody approves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuarantinedTool {
    /// The server's own name of it, or `(instructions)`.
    pub name: String,
    pub reason: QuarantineReason,
    pub flags: Vec<ToolFlag>,
}

/// A tool that is listed although something about it is strange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlaggedTool {
    /// The server's own name of it, or `(instructions)`.
    pub name: String,
    pub flags: Vec<ToolFlag>,
    /// Who approved it, or the rule of its file that did: `tofu` or `auto`.
    pub decided_by: String,
}

impl FlaggedTool {
    /// Whether a person has looked at it.
    #[must_use]
    pub fn is_approved_by_someone(&self) -> bool {
        self.decided_by.contains(':')
    }
}

/// A tool that waits to be approved, with all that there is to know of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingTool {
    /// The server's own name of it, or `(instructions)`.
    pub name: String,
    pub reason: QuarantineReason,
    /// Of the definition; what is approved is what has this hash.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub hash: String,
    pub flags: Vec<ToolFlag>,
    /// What the server says now.
    #[schema(value_type = Object)]
    pub definition: Value,
    /// What was approved before.
    #[schema(required)]
    pub approved: Option<ApprovedDefinition>,
    /// What has changed, line by line, each with `+`, `-` or a space in front; hidden characters are written as `<U+200B>`.
    pub diff: Vec<String>,
}

/// A definition that somebody, or a rule, has approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovedDefinition {
    pub hash: String,
    #[schema(value_type = Object)]
    pub definition: Value,
    /// Who approved it, or the rule of its file that did: `tofu` or `auto`.
    pub decided_by: String,
    pub decided_at: Timestamp,
}

/// Body of `POST /api/v1/upstreams/{server}/approve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveUpstreamParams {
    #[schema(min_items = 1, max_items = 1001)]
    pub tools: Vec<ToolApproval>,
}

/// A definition to approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolApproval {
    /// As in what is pending.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Of the definition that was looked at.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub hash: String,
}

/// What was approved, and what still waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamApproval {
    pub name: String,
    pub approved: Vec<String>,
    pub pending: Vec<String>,
}
