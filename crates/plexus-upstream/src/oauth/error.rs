//! Errors of logging in to a server.

use crate::client::ClientError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("there is no server {0}")]
    NoServer(String),
    /// The login does not exist, has ended, or took too long.
    #[error("there is no such login: it has ended, or took longer than 10 minutes")]
    NoLogin,
    /// The server does not support logins, or its file contains conflicting settings.
    #[error("{0}")]
    Unsuitable(String),
    /// The server, its authorization server or the browser returned an error or an invalid answer; nothing
    /// was changed.
    #[error("{0}")]
    Refused(String),
    /// A server that the login needs could not be reached; retrying later may help.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0} logins are already in progress; try again later")]
    Full(usize),
}

impl From<ClientError> for LoginError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable(why) | ClientError::Busy(why) | ClientError::Lost(why) => {
                Self::Unreachable(why)
            }
            other => Self::Refused(other.to_string()),
        }
    }
}
