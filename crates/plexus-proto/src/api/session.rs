//! `/api/v1/sessions`.

use jiff::Timestamp;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{Event, SessionId};

/// Maximum number of events in one append request.
pub const MAX_EVENTS: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub id: SessionId,
    /// `codex:<thread>`, `claude:<session>`, `external:<client>:<id>`, `named:<name>`, `cli:<name>`.
    pub key: String,
    /// Subject of the principal it belongs to.
    pub owner: String,
    #[schema(required)]
    pub client: Option<String>,
    /// The folder in which the client works, as far as a proxy or `plexus run` has told it.
    #[schema(required)]
    #[serde(default)]
    pub folder: Option<String>,
    /// The name that the session was given, otherwise the first entry of its todo list.
    #[schema(required)]
    #[serde(default)]
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Number of the newest event; 0 if there are none.
    #[schema(minimum = 0)]
    pub last_seq: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSessionParams {
    /// A name chosen by the caller, as in the header `Plexus-Session` of a call; absent: a generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// The program that the session belongs to, such as `codex/1.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub client: Option<String>,
    /// The client's own id of a conversation: selects the session that records the client's MCP calls, such
    /// as `codex:<thread>`; `name` is ignored then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub conversation: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendEventsParams {
    /// Number of the newest event known to the caller. If the session has newer events, nothing is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_seq: Option<i64>,
    /// Appended all or none, in this order.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 100)]
    pub events: Vec<AppendEvent>,
}

/// Accepts items written as objects only: a derived deserializer would also accept an array of the fields.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let objects = Vec::<Map<String, Value>>::deserialize(deserializer)?;
    let item = |object| serde_json::from_value(Value::Object(object)).map_err(de::Error::custom);
    objects.into_iter().map(item).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendEvent {
    /// Any kind except those recorded by the hub itself: `tool_started`, `tool_call`, `approval_requested`,
    /// `approval_decided`.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,63}$")]
    pub kind: String,
    /// At most 64 KiB as JSON.
    #[schema(value_type = Object)]
    pub payload: Map<String, Value>,
    /// The event's id at its origin. If the session already has an event with this id, that event is returned
    /// as stored and nothing is appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[!-~]{1,256}$")]
    pub external_id: Option<String>,
    /// When it happened; absent: now. Must not be in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The events as stored, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AppendEventsResponse {
    pub events: Vec<Event>,
    /// Number of the session's newest event after the append.
    #[schema(minimum = 0)]
    pub last_seq: i64,
}
