//! The authenticated caller of a request.

use std::sync::Arc;

use plexus_proto::api::TokenKind;
use plexus_proto::{NodeId, Timestamp, TokenId};

use crate::ScopeSet;
use crate::keys::VerifyingKey;
use crate::policy::check_name;

const EVERY_TOOL: &str = "call:*";

/// The scope that a node's credential grants. No other token can request it.
pub(crate) fn link_scope(id: NodeId) -> String {
    format!("link:{id}")
}

/// Created by the authenticator from a verified token; on a node also from a call that its hub sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    pub(crate) token_id: TokenId,
    pub(crate) kind: TokenKind,
    pub(crate) subject: String,
    pub(crate) scopes: ScopeSet,
    pub(crate) profile: Option<String>,
    pub(crate) node: Option<String>,
    pub(crate) expires_at: Timestamp,
    pub(crate) proof: Proof,
}

/// Why a principal is trusted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proof {
    /// Its token was signed with this key.
    Token(Arc<VerifyingKey>),
    /// The hub named it, over the link that the node dialled.
    Relayed,
}

impl Principal {
    /// The caller of a call that a node's hub sent to it, for the dispatcher of that node.
    ///
    /// It may call everything on the node, because the hub decides who may call what on which machine: a
    /// second list of the same rights on every machine could only be outdated. This widens nothing, because
    /// - a node accepts calls only from the hub that it dialled itself and whose address and certificate it
    ///   checks: anyone able to forge such a call could also forge a token;
    /// - it is only valid for tools: it is not an admin, cannot mint tokens, and no
    ///   [`Authenticator`](crate::Authenticator) accepts it, since it has no token to present;
    /// - restrictions of the machine itself are enforced by the tool, not through the principal, so they
    ///   apply to everyone.
    ///
    /// The subject is that of the original caller, so that the machine's audit log shows who did what. `None`
    /// if the subject is invalid.
    #[must_use]
    pub fn relayed(subject: &str) -> Option<Self> {
        let (kind, name) = subject.split_once(':')?;
        let kind = kind.parse().ok()?;
        check_name("caller", name).ok()?;
        Some(Self {
            token_id: TokenId::from_bytes([0; 16]),
            kind,
            subject: subject.to_owned(),
            scopes: ScopeSet::parse(&[EVERY_TOOL]).ok()?,
            profile: None,
            node: None,
            expires_at: Timestamp::MAX,
            proof: Proof::Relayed,
        })
    }

    pub(crate) fn key_accepts_at(&self, now: Timestamp) -> bool {
        match &self.proof {
            Proof::Token(key) => key.accepts_at(now),
            Proof::Relayed => false,
        }
    }

    /// When the key that signed the token ends; `None` while it is the current key.
    pub(crate) fn key_until(&self) -> Option<Timestamp> {
        match &self.proof {
            Proof::Token(key) => key.until(),
            Proof::Relayed => None,
        }
    }

    #[must_use]
    pub fn token_id(&self) -> TokenId {
        self.token_id
    }

    #[must_use]
    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// `kind:name`, such as `agent:codex`: identical for all tokens of one holder, so that sessions and
    /// idempotency keys survive a renewal.
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

    /// Name of the machine for calls that name none.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Whether this is the given node, which may therefore open its link.
    #[must_use]
    pub fn is_node(&self, id: NodeId) -> bool {
        self.kind == TokenKind::Node && self.name() == id.to_string() && self.allows(&link_scope(id))
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
