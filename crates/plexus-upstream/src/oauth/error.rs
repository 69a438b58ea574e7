//! Why the hub was not given access to a server.

use crate::client::ClientError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("there is no server {0}")]
    NoServer(String),
    /// The login was never begun, has ended, or took too long.
    #[error("there is no such login: it has ended, or took longer than 10 minutes")]
    NoLogin,
    /// The server is not one that is logged in to, or its file says something that does not go with it.
    #[error("{0}")]
    Unsuitable(String),
    /// What the server, its authorization server or the browser says is wrong, and nothing was taken from it.
    #[error("{0}")]
    Refused(String),
    /// What is needed for it was not reached, and may be later.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0} logins wait for their persons already")]
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
