//! `/api/v1/tokens`.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{Array, Object, Type};

use crate::TokenId;

/// Kind of token holder, in order of privilege: a token can mint its own kind or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    Admin,
    User,
    Agent,
    Node,
    Session,
}

impl TokenKind {
    pub const ALL: [Self; 5] = [Self::Admin, Self::User, Self::Agent, Self::Node, Self::Session];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Node => "node",
            Self::Session => "session",
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TokenKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| format!("{text:?} is not a token kind; use admin, user, agent, node or session"))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenParams {
    pub kind: TokenKind,
    #[schema(pattern = "^[A-Za-z0-9._/@-]{1,100}$")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9._/@-]{1,100}$")]
    pub profile: Option<String>,
    /// Name of the machine for calls that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$")]
    pub node: Option<String>,
    /// Empty: the kind's default scopes, limited to those of the minting token.
    #[serde(default)]
    #[schema(schema_with = scopes)]
    pub scopes: Vec<String>,
    /// Lifetime in seconds; absent: the default of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub ttl_seconds: Option<u64>,
    /// How long the token may be renewed, in seconds from now; 0: not at all; absent: the default of the
    /// kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 315_360_000)]
    pub renew_seconds: Option<u64>,
}

/// Body of `POST /api/v1/tokens/{jti}/rotate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateTokenParams {
    /// How long the old token remains valid, in seconds; absent: it ends immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u64>,
}

/// Each of the form `verb:resource`, or `admin`.
fn scopes() -> Array {
    let scope = Object::builder()
        .schema_type(Type::String)
        .pattern(Some(r"^(admin|[a-z*]+:[A-Za-z0-9_.:*/-]+)$"))
        .max_length(Some(200));
    Array::builder()
        .items(scope)
        .description(Some("Empty: the kind's default scopes, limited to those of the minting token."))
        .build()
}

/// The only answer that carries the token itself; it is not stored and cannot be shown again.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    pub token: String,
    pub jti: TokenId,
    pub expires_at: Timestamp,
    /// Until when the token may be renewed; null if it cannot be renewed.
    #[serde(default)]
    #[schema(required)]
    pub renew_until: Option<Timestamp>,
    pub kind: TokenKind,
    pub name: String,
    pub scopes: Vec<String>,
    #[schema(required)]
    pub profile: Option<String>,
    /// Name of the machine for calls that name none.
    #[serde(default)]
    #[schema(required)]
    pub node: Option<String>,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken")
            .field("jti", &self.jti)
            .field("token", &"[redacted]")
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub jti: TokenId,
    pub kind: TokenKind,
    pub name: String,
    pub scopes: Vec<String>,
    #[schema(required)]
    pub profile: Option<String>,
    /// The token that minted this one or was renewed by it; null for the hub's own admin token.
    #[schema(required)]
    pub parent: Option<TokenId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// In the future while a replaced token is in its grace period.
    #[schema(required)]
    pub revoked_at: Option<Timestamp>,
    /// Until when the token may be renewed; null if it cannot be renewed.
    #[serde(default)]
    #[schema(required)]
    pub renew_until: Option<Timestamp>,
    /// Accurate to about ten seconds; null if it was never used.
    #[serde(default)]
    #[schema(required)]
    pub last_used_at: Option<Timestamp>,
    /// Name of the machine for calls that name none.
    #[serde(default)]
    #[schema(required)]
    pub node: Option<String>,
}

impl Token {
    #[must_use]
    pub fn state(&self, now: Timestamp) -> TokenState {
        match self.revoked_at {
            Some(at) if at <= now => TokenState::Revoked,
            _ if self.expires_at <= now => TokenState::Expired,
            Some(_) => TokenState::Ending,
            None => TokenState::Active,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    Active,
    /// Replaced by another token, and accepted until `revoked_at`.
    Ending,
    Expired,
    Revoked,
}

impl TokenState {
    /// Whether the token is accepted.
    #[must_use]
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Active | Self::Ending)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Ending => "ending",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// A token with its details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenDetail {
    #[serde(flatten)]
    pub token: Token,
    pub state: TokenState,
    /// Number of tokens that it minted or that renew it, in any state.
    pub children: i64,
}
