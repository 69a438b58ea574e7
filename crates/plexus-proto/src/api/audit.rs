//! `/api/v1/audit`.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{CallId, SessionId, TokenId};

/// Which half of a call's audit record an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditPhase {
    /// Before the call: the caller and the requested tool.
    Started,
    /// After the call: its outcome.
    Finished,
    /// A notice of the hub about the chain itself.
    Notice,
}

impl AuditPhase {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Notice => "notice",
        }
    }
}

/// One link of the chain, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    #[schema(minimum = 0)]
    pub n: i64,
    pub at: Timestamp,
    pub phase: AuditPhase,
    #[schema(required)]
    pub call_id: Option<CallId>,
    #[schema(required)]
    pub token_id: Option<TokenId>,
    pub actor: String,
    #[schema(required)]
    pub session_id: Option<SessionId>,
    pub tool: String,
    /// `mcp`, `rest` …
    pub via: String,
    /// `ok` or an error code; empty until the call has ended.
    pub outcome: String,
    /// Arguments (started) or result (finished), redacted and cut to size.
    pub detail: Value,
    pub prev_hash: String,
    pub hash: String,
}

/// A call: both halves of its audit record in one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditCall {
    pub call_id: CallId,
    pub started_at: Timestamp,
    #[schema(required)]
    pub finished_at: Option<Timestamp>,
    pub actor: String,
    #[schema(required)]
    pub token_id: Option<TokenId>,
    #[schema(required)]
    pub session_id: Option<SessionId>,
    pub tool: String,
    pub via: String,
    /// `ok`, an error code, or `unfinished`: still running, or interrupted by a crash.
    pub outcome: String,
    pub arguments: Value,
    pub result: Value,
    /// Numbers of its entries in the chain: the start, followed by the end if the call has ended.
    #[schema(min_items = 1, max_items = 2)]
    pub entries: Vec<i64>,
}

/// The newest link, as signed in the file beside the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    pub hub: String,
    #[schema(minimum = 0)]
    pub n: i64,
    pub hash: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The content of an entry does not match its hash.
    Changed,
    /// One or more entries are missing.
    Missing,
    /// An entry does not follow from its predecessor.
    Reordered,
    /// The chain is consistent but does not match the signed head.
    Rewritten,
    /// The newest entries are missing.
    CutOff,
    /// The signed head is missing, unreadable or not signed by this hub.
    HeadInvalid,
    /// The hub found the chain broken at startup; see the notice for details.
    BreakAtStart,
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Reordered => "reordered",
            Self::Rewritten => "rewritten",
            Self::CutOff => "cut off",
            Self::HeadInvalid => "head invalid",
            Self::BreakAtStart => "break at start",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditProblem {
    pub kind: ProblemKind,
    /// Number of the entry concerned.
    #[schema(minimum = 0)]
    pub n: i64,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditReport {
    pub ok: bool,
    pub hub: String,
    #[schema(minimum = 0)]
    pub entries: i64,
    /// The newest entry in the database.
    #[schema(required)]
    pub head: Option<AuditHead>,
    /// The head from the signed file, if it could be read.
    #[schema(required)]
    pub signed: Option<AuditHead>,
    /// The first problems, in order; a rewritten table can have millions.
    pub problems: Vec<AuditProblem>,
    pub problem_count: u64,
}
