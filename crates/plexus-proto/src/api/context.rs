//! `/api/v1/context`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TokenKind;
use crate::TokenId;

/// What decides what a token sees and how long it does: for programs that stand between an agent and the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Context {
    /// Whom the token is of: `kind:name`.
    pub subject: String,
    pub token: ContextToken,
    /// The machines that it may use, by name.
    pub nodes: Vec<ContextNode>,
    /// Stands for what its `tools/list` shows: another list has another one.
    pub tools: String,
    /// Stands for all of it, also after a restart of the hub. The `ETag` of the answer.
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContextToken {
    pub jti: TokenId,
    pub kind: TokenKind,
    /// When it ends; of one that was replaced, the end of its grace.
    pub expires_at: Timestamp,
    /// Until when it may be renewed; none: it cannot be.
    #[serde(default)]
    #[schema(required)]
    pub renew_until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextNode {
    pub name: String,
    /// It takes calls now.
    pub online: bool,
}
