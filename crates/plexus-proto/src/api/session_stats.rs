//! `/api/v1/sessions/stats` and `/api/v1/sessions/{id}/stats`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Session;

/// What happened in a session, counted from its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionStats {
    pub session: Session,
    /// Events that were counted.
    #[schema(minimum = 0)]
    pub events: i64,
    /// Older events were left out: there are more than are counted.
    pub partial: bool,
    /// Time of the first event that was counted.
    #[schema(required)]
    pub first_at: Option<Timestamp>,
    #[schema(required)]
    pub last_at: Option<Timestamp>,
    pub calls: CallStats,
    pub queued: QueuedStats,
    /// Writes that were kept on their way and could not be delivered.
    #[schema(minimum = 0)]
    pub dead_letters: i64,
    /// Tokens of a model, as far as events say; none: they do not.
    #[schema(required)]
    pub tokens: Option<i64>,
    pub runs: RunStats,
}

/// Calls that have ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallStats {
    #[schema(minimum = 0)]
    pub total: i64,
    #[schema(minimum = 0)]
    pub failed: i64,
    /// Failures by their code.
    pub failures: BTreeMap<String, i64>,
    /// From their start to their end, together, in milliseconds. Calls that ran at the same time count each.
    #[schema(minimum = 0)]
    pub took_ms: i64,
    /// Most called first; at most 50.
    pub tools: Vec<ToolStats>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolStats {
    pub tool: String,
    #[schema(minimum = 0)]
    pub calls: i64,
    #[schema(minimum = 0)]
    pub failed: i64,
    #[schema(minimum = 0)]
    pub took_ms: i64,
}

/// Writes that were kept by a local proxy and sent later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedStats {
    #[schema(minimum = 0)]
    pub writes: i64,
    /// Longest time that one waited, in milliseconds.
    #[schema(minimum = 0)]
    pub longest_ms: i64,
    #[schema(minimum = 0)]
    pub mean_ms: i64,
}

/// What became of the agent, where `plexus run` started it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunStats {
    #[schema(minimum = 0)]
    pub started: i64,
    #[schema(minimum = 0)]
    pub exited: i64,
    #[schema(minimum = 0)]
    pub crashed: i64,
    #[schema(minimum = 0)]
    pub stopped: i64,
    #[schema(minimum = 0)]
    pub restarted: i64,
}
