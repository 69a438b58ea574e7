//! The right to hold a stream open: a place among the streams of a subject, for as long as the token
//! lives that it was opened with.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Place;
use tokio::sync::watch;

use crate::{Authenticator, Principal};

/// Longest sleep before the time that is left is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A principal that was authenticated earlier and is still there.
#[derive(Debug)]
pub struct Welcome {
    authenticator: Arc<Authenticator>,
    principal: Arc<Principal>,
    revocations: watch::Receiver<i64>,
    _place: Place,
}

impl Welcome {
    #[must_use]
    pub fn new(authenticator: Arc<Authenticator>, principal: Arc<Principal>, place: Place) -> Self {
        Self { revocations: authenticator.revocations(), authenticator, principal, _place: place }
    }

    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Ends when the token has expired or was revoked.
    pub async fn ended(&mut self) {
        while let Some(left) = self.authenticator.time_left(&self.principal) {
            tokio::select! {
                Ok(()) = self.revocations.changed() => {}
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
            }
        }
    }
}
