//! A stream outlives the check of its token; it must not outlive the token.

use std::sync::Arc;
use std::time::Duration;

use plexus_auth::{Authenticator, Principal};
use tokio::sync::watch;

/// Longest sleep before the time that is left is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A principal's right to a stream it holds open.
#[derive(Debug)]
pub(super) struct Welcome {
    authenticator: Arc<Authenticator>,
    principal: Arc<Principal>,
    revocations: watch::Receiver<i64>,
}

impl Welcome {
    pub(super) fn new(authenticator: Arc<Authenticator>, principal: Arc<Principal>) -> Self {
        Self { revocations: authenticator.revocations(), authenticator, principal }
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Ends when the token has expired or was revoked.
    pub(super) async fn ended(&mut self) {
        while let Some(left) = self.authenticator.time_left(&self.principal) {
            tokio::select! {
                Ok(()) = self.revocations.changed() => {}
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
            }
        }
    }
}
