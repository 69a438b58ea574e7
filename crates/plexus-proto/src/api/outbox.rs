//! `/api/v1/outbox`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::objects;
use crate::SessionId;

/// Letters in one request.
pub const MAX_LETTERS: usize = 100;

/// Writes that a local proxy kept and cannot deliver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TellLettersParams {
    /// Name of the client whose writes they are, as it calls itself over MCP.
    #[schema(min_length = 1, max_length = 256)]
    pub client: String,
    /// The conversation they belong to, as in the header `Plexus-Session`; absent: that of a client that names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub session: Option<String>,
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 100)]
    pub letters: Vec<DeadLetter>,
}

/// A write that was kept on its way and that the hub refused for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// Its idempotency key.
    #[schema(min_length = 1, max_length = 255)]
    pub key: String,
    /// Name of the tool.
    #[schema(min_length = 1, max_length = 256)]
    pub tool: String,
    /// Why it is not sent again.
    #[schema(max_length = 4096)]
    pub reason: String,
    /// When the write was accepted.
    pub occurred_at: Timestamp,
    /// How often it was sent.
    #[schema(value_type = i64, minimum = 0, maximum = 4_294_967_295_i64)]
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TellLettersResponse {
    /// The session that has them.
    pub session_id: SessionId,
    /// Those that it did not have yet.
    #[schema(minimum = 0)]
    pub added: usize,
}
