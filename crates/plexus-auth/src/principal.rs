//! Whoever is behind a request, as proven by a token.

use std::sync::Arc;

use plexus_proto::api::TokenKind;
use plexus_proto::{Timestamp, TokenId};

use crate::ScopeSet;
use crate::keys::VerifyingKey;

/// Made by the authenticator only; holding one means that a token was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    token_id: TokenId,
    kind: TokenKind,
    subject: String,
    scopes: ScopeSet,
    profile: Option<String>,
    expires_at: Timestamp,
    /// What its token was signed with.
    key: Arc<VerifyingKey>,
}

impl Principal {
    pub(crate) fn new(
        token_id: TokenId,
        kind: TokenKind,
        name: &str,
        scopes: ScopeSet,
        profile: Option<String>,
        expires_at: Timestamp,
        key: Arc<VerifyingKey>,
    ) -> Self {
        Self { token_id, kind, subject: format!("{kind}:{name}"), scopes, profile, expires_at, key }
    }

    pub(crate) fn key(&self) -> &VerifyingKey {
        &self.key
    }

    #[must_use]
    pub fn token_id(&self) -> TokenId {
        self.token_id
    }

    #[must_use]
    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// `kind:name`, such as `agent:codex`: the same for every token of one holder, so that sessions
    /// and idempotency keys outlive a renewed token.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.subject.split_once(':').map_or("", |(_, name)| name)
    }

    #[must_use]
    pub fn scopes(&self) -> &ScopeSet {
        &self.scopes
    }

    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    #[must_use]
    pub fn allows(&self, scope: &str) -> bool {
        self.scopes.allows(scope)
    }

    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.scopes.is_admin()
    }
}
