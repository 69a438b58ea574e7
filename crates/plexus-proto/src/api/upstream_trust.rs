//! `/api/v1/upstreams/{server}/pending` and `/approve`: tool definitions of servers, and their approval.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Timestamp;

/// Pseudo-tool name for the instructions that a server gives to models. No tool can have this name.
pub const INSTRUCTIONS: &str = "(instructions)";

/// Why a tool is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineReason {
    /// No tool of this name was approved.
    New,
    /// Its definition differs from the approved one.
    Changed,
    /// Present when the server was first seen, but flagged as suspicious.
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

/// Why a tool definition is suspicious.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlagKind {
    /// Characters that are invisible to people but read by models.
    HiddenText,
    /// Text that instructs the model instead of describing the tool.
    Instructions,
    /// A long run of base64 or hexadecimal digits.
    EncodedData,
    /// A terminal control sequence.
    TerminalEscape,
    /// Instructions for the use of another server's tool.
    Shadowing,
    /// A name that is confusable with that of another tool.
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

/// A suspicious finding and its location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct ToolFlag {
    pub kind: FlagKind,
    /// The field, such as `description` or `inputSchema.properties.path.description`.
    pub at: String,
    /// The text found, shortened, with hidden characters written as `<U+200B>`.
    pub found: String,
}

/// A tool that is not listed until approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuarantinedTool {
    /// The server's own name for it, or `(instructions)`.
    pub name: String,
    pub reason: QuarantineReason,
    pub flags: Vec<ToolFlag>,
}

/// A tool that is listed although it was flagged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlaggedTool {
    /// The server's own name for it, or `(instructions)`.
    pub name: String,
    pub flags: Vec<ToolFlag>,
    /// The person that approved it, or the rule of the server's file: `tofu` or `auto`.
    pub decided_by: String,
}

impl FlaggedTool {
    /// Whether a person approved it.
    #[must_use]
    pub fn is_approved_by_someone(&self) -> bool {
        self.decided_by.contains(':')
    }
}

/// A tool that awaits approval, with its details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingTool {
    /// The server's own name for it, or `(instructions)`.
    pub name: String,
    pub reason: QuarantineReason,
    /// Hash of the definition; an approval applies to this hash only.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub hash: String,
    pub flags: Vec<ToolFlag>,
    /// The current definition.
    #[schema(value_type = Object)]
    pub definition: Value,
    /// The previously approved definition.
    #[schema(required)]
    pub approved: Option<ApprovedDefinition>,
    /// Line-by-line diff, each line prefixed with `+`, `-` or a space; hidden characters are written as
    /// `<U+200B>`.
    pub diff: Vec<String>,
}

/// A definition approved by a person or a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovedDefinition {
    pub hash: String,
    #[schema(value_type = Object)]
    pub definition: Value,
    /// The person that approved it, or the rule of the server's file: `tofu` or `auto`.
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
    /// As in the list of pending tools.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Hash of the definition that was reviewed.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub hash: String,
}

/// The approved and the still pending tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamApproval {
    pub name: String,
    pub approved: Vec<String>,
    pub pending: Vec<String>,
}
