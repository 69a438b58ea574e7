//! `/api/v1/context`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TokenKind;
use crate::TokenId;

/// The tools a token can see and its lifetime, for programs between an agent and the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Context {
    /// The token's subject: `kind:name`.
    pub subject: String,
    pub token: ContextToken,
    /// Names of the machines that the token may use.
    pub nodes: Vec<ContextNode>,
    /// Version of the `tools/list` answer: changes whenever that list changes.
    pub tools: String,
    /// Version of the whole context, stable across hub restarts. The `ETag` of the answer.
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextToken {
    pub jti: TokenId,
    pub kind: TokenKind,
    /// When the token expires; for a replaced token, when its grace period ends.
    pub expires_at: Timestamp,
    /// Until when the token may be renewed; null if it cannot be renewed.
    #[serde(default)]
    #[schema(required)]
    pub renew_until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextNode {
    pub name: String,
    /// Whether it currently accepts calls.
    pub online: bool,
}
