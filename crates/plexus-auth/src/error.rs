//! Why a credential or a request for one was turned down.

use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Malformed, not signed by this hub, or of another audience. Said without detail.
    #[error("the token is not valid for this hub")]
    InvalidToken,
    #[error("the token has expired")]
    Expired,
    #[error("the token has been revoked")]
    Revoked,
    /// A valid request for more than the asking token has.
    #[error("{0}")]
    Forbidden(String),
    /// A request that makes no sense for anyone.
    #[error("{0}")]
    Invalid(String),
    #[error("{what}")]
    Key { what: &'static str, source: std::io::Error },
    #[error("the signing key is damaged: {0}")]
    DamagedKey(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AuthError {
    /// Why a token was turned down, in one word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidToken => "invalid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Forbidden(_) | Self::Invalid(_) => "refused",
            Self::Key { .. } | Self::DamagedKey(_) | Self::Store(_) => "unavailable",
        }
    }
}
