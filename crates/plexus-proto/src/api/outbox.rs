//! `/api/v1/outbox`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::objects;
use crate::SessionId;

/// Maximum number of letters in one request.
pub const MAX_DEAD_LETTERS: usize = 100;

/// Writes that a local proxy stored and cannot deliver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TellLettersParams {
    /// Name of the client that made the writes, as it identifies itself over MCP.
    #[schema(min_length = 1, max_length = 256)]
    pub client: String,
    /// The conversation that they belong to, as in the header `Plexus-Session`; absent: the session for
    /// clients that do not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub session: Option<String>,
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 100)]
    pub letters: Vec<DeadLetter>,
}

/// A stored write that the hub rejected permanently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// Its idempotency key.
    #[schema(min_length = 1, max_length = 255)]
    pub key: String,
    /// Name of the tool.
    #[schema(min_length = 1, max_length = 256)]
    pub tool: String,
    /// Why the write is not sent again.
    #[schema(max_length = 4096)]
    pub reason: String,
    /// When the write was accepted.
    pub occurred_at: Timestamp,
    /// Number of times it was sent.
    #[schema(value_type = i64, minimum = 0, maximum = 4_294_967_295_i64)]
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TellLettersResponse {
    /// The session that the letters were added to.
    pub session_id: SessionId,
    /// Number of letters that the session did not have yet.
    #[schema(minimum = 0)]
    pub added: usize,
}
