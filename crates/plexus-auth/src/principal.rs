//! Whoever is behind a request, as proven by a token.

use std::sync::Arc;

use plexus_proto::api::TokenKind;
use plexus_proto::{NodeId, Timestamp, TokenId};

use crate::ScopeSet;
use crate::keys::VerifyingKey;
use crate::policy::check_name;

const EVERY_TOOL: &str = "call:*";

/// What the credential of a node grants. No other token can ask for it.
pub(crate) fn link_scope(id: NodeId) -> String {
    format!("link:{id}")
}

/// Made by the authenticator, from a token that was verified; on a node also from a call that its hub sent.
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

/// Why somebody is taken for who they say they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proof {
    /// Their token was signed with this key.
    Token(Arc<VerifyingKey>),
    /// The hub said so, over the link that the node dialled.
    Relayed,
}

impl Principal {
    /// Whoever is behind a call that the hub of a node sent to it, for the dispatcher of that node.
    ///
    /// It may call everything there, for who may call what on which machine was decided on the hub: a second list of the
    /// same rights on every machine could only be out of date. This widens nothing, because
    /// - a node takes calls from nobody but the hub that it dialled itself and whose address and certificate it checks:
    ///   whoever could forge a call there could as well forge a token;
    /// - it is good for tools alone: it is no admin, makes no tokens, and no [`Authenticator`](crate::Authenticator) accepts
    ///   it, since there is no token that could be presented;
    /// - what the machine itself forbids is not asked of the principal but of the tool, so that it holds for everyone.
    ///
    /// The subject is that of the real caller, so that the audit of the machine says who did what on it. None: it is none.
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

    /// When the key ends that its token was signed with; none while that signs.
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

    /// Name of the machine where its calls go that name none.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Whether it is this node, and so may keep its link.
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
