//! Errors of authentication and of requests for credentials.

use plexus_proto::ErrorCode;
use plexus_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Malformed, not signed by this hub, or for another audience. Deliberately without details.
    #[error("the token is not valid for this hub")]
    InvalidToken,
    #[error("the token has expired")]
    Expired,
    #[error("the token has been revoked")]
    Revoked,
    #[error("the token was signed with a key that has been retired")]
    KeyRetired,
    /// A valid request that exceeds the rights of the requesting token.
    #[error("{0}")]
    Forbidden(String),
    /// A token that cannot be renewed.
    #[error("{0}")]
    NotRenewable(String),
    /// A machine that may not become a node, or not this node.
    #[error("{0}")]
    NotAdmitted(&'static str),
    /// A request that is invalid regardless of the requester.
    #[error("{0}")]
    Invalid(String),
    /// A request that conflicts with the current state.
    #[error("{message}")]
    Conflict { message: String, hint: &'static str },
    #[error("{what}")]
    Key { what: &'static str, source: std::io::Error },
    #[error("the signing key is damaged: {0}")]
    DamagedKey(String),
    #[error("the sealing key is damaged: {0}")]
    DamagedSealingKey(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AuthError {
    /// The outcome of a failed request, as recorded in the audit log.
    pub(crate) fn outcome(&self) -> &'static str {
        let code = match self {
            Self::InvalidToken | Self::Expired | Self::Revoked | Self::KeyRetired | Self::NotAdmitted(_) => {
                ErrorCode::Unauthenticated
            }
            Self::Forbidden(_) | Self::NotRenewable(_) => ErrorCode::Forbidden,
            Self::Invalid(_) => ErrorCode::InvalidRequest,
            Self::Conflict { .. } => ErrorCode::Conflict,
            Self::Store(_) => ErrorCode::Unavailable,
            Self::Key { .. } | Self::DamagedKey(_) | Self::DamagedSealingKey(_) => ErrorCode::Internal,
        };
        code.as_str()
    }

    /// Why a token was rejected, in one word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidToken => "invalid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::KeyRetired => "key_retired",
            Self::NotAdmitted(_) => "not_admitted",
            Self::Forbidden(_) | Self::NotRenewable(_) | Self::Invalid(_) | Self::Conflict { .. } => {
                "refused"
            }
            Self::Key { .. } | Self::DamagedKey(_) | Self::DamagedSealingKey(_) | Self::Store(_) => {
                "unavailable"
            }
        }
    }
}
