//! `/api/v1/sessions/stats` and `/api/v1/sessions/{id}/stats`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Session;

/// Statistics of a session, computed from its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionStats {
    pub session: Session,
    /// Number of events counted.
    #[schema(minimum = 0)]
    pub events: i64,
    /// Whether older events were left out because the session exceeds the limit.
    pub partial: bool,
    /// Time of the first event counted.
    #[schema(required)]
    pub first_at: Option<Timestamp>,
    #[schema(required)]
    pub last_at: Option<Timestamp>,
    pub calls: CallStats,
    pub queued: QueuedStats,
    /// Writes stored by a proxy that could not be delivered.
    #[schema(minimum = 0)]
    pub dead_letters: i64,
    /// Model tokens, as far as events report them; null if none do.
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
    /// Number of failures by error code.
    pub failures: BTreeMap<String, i64>,
    /// Total duration in milliseconds. Concurrent calls each count in full.
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

/// Writes that a local proxy stored and sent later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedStats {
    #[schema(minimum = 0)]
    pub writes: i64,
    /// Longest waiting time of a write, in milliseconds.
    #[schema(minimum = 0)]
    pub longest_ms: i64,
    #[schema(minimum = 0)]
    pub mean_ms: i64,
}

/// How agent runs ended, for agents started by `plexus run`.
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
