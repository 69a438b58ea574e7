//! The permission to keep a stream open: a slot among the streams of a subject, for the lifetime of the token
//! that opened it.

use std::sync::Arc;
use std::time::Duration;

use plexus_kit::QuotaSlot;
use tokio::sync::watch;

use crate::{Authenticator, Principal};

/// Maximum time between two checks of the remaining time.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A previously authenticated principal that is still connected.
#[derive(Debug)]
pub struct StreamPermit {
    authenticator: Arc<Authenticator>,
    principal: Arc<Principal>,
    revocations: watch::Receiver<i64>,
    _slot: QuotaSlot,
}

impl StreamPermit {
    #[must_use]
    pub fn new(authenticator: Arc<Authenticator>, principal: Arc<Principal>, slot: QuotaSlot) -> Self {
        Self { revocations: authenticator.revocations(), authenticator, principal, _slot: slot }
    }

    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Completes when the token has expired or was revoked.
    pub async fn wait_until_invalid(&mut self) {
        while let Some(remaining) = self.authenticator.time_left(&self.principal) {
            tokio::select! {
                Ok(()) = self.revocations.changed() => {}
                () = tokio::time::sleep(remaining.min(RECHECK_INTERVAL)) => {}
            }
        }
    }
}
