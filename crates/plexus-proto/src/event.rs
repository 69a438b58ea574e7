//! Session events: the rows of a session's append-only log, as stored and as sent.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use crate::SessionId;

/// Kind of event. Unknown kinds are preserved as received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `{tool, args}`: a call passed all checks and runs.
    ToolStarted,
    /// `{tool, args, result, success}`: a call ended.
    ToolCall,
    Other(String),
}

impl EventKind {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::ToolStarted => "tool_started",
            Self::ToolCall => "tool_call",
            Self::Other(kind) => kind,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = Infallible;

    fn from_str(kind: &str) -> Result<Self, Infallible> {
        Ok(match kind {
            "tool_started" => Self::ToolStarted,
            "tool_call" => Self::ToolCall,
            other => Self::Other(other.to_owned()),
        })
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Ok(kind) = String::deserialize(deserializer)?.parse();
        Ok(kind)
    }
}

/// One event of a session, with its position in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub session_id: SessionId,
    /// Counts from 1 without gaps; assigned by the database.
    #[schema(minimum = 1)]
    pub seq: i64,
    /// Position among the events of all sessions: later events have a higher one.
    #[schema(minimum = 1)]
    pub pos: i64,
    pub at: Timestamp,
    #[schema(value_type = String)]
    pub kind: EventKind,
    /// Subject of the principal that caused it, such as `agent:codex`.
    pub actor: String,
    pub payload: Value,
    /// The event's id at its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub external_id: Option<String>,
}

/// An event to append; the database assigns its `seq`.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub at: Timestamp,
    pub kind: EventKind,
    pub actor: String,
    /// JSON text, stored unmodified.
    pub payload: String,
    /// Events with the same external id are stored once.
    pub external_id: Option<String>,
}
