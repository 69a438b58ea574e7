//! `/api/v1/keys`: names and times of the keys that sign tokens, never the keys themselves.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Signs new tokens; there is exactly one such key.
    Current,
    /// No longer signs; tokens it signed are accepted until `verifies_until`.
    Retiring,
    /// Tokens it signed are no longer accepted.
    Retired,
}

impl KeyState {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Appears in the header of every token that the key signed.
    pub kid: String,
    pub state: KeyState,
    pub created_at: Timestamp,
    /// Null for the current key.
    #[schema(required)]
    pub verifies_until: Option<Timestamp>,
}

/// The key that signs from now on, and the key it replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotatedKey {
    #[serde(flatten)]
    pub key: Key,
    pub replaces: Key,
}

/// Body of `POST /api/v1/keys/rotate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeysParams {
    /// How long tokens signed by the old key remain valid, in seconds; absent: the hub's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u64>,
}
