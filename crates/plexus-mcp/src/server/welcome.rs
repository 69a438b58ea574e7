//! The right to hold a stream open: for as long as the token lives, and only so many at a time.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use plexus_auth::{Authenticator, Principal};
use plexus_kit::{Place, Quota};
use tokio::sync::watch;

use super::rpc::RpcError;

/// Streams of one subject at the same time; one more is refused.
const PER_SUBJECT: usize = 128;
/// Longest sleep before the time that is left is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Open streams of all.
#[derive(Debug)]
pub(super) struct Streams(Quota);

impl Default for Streams {
    fn default() -> Self {
        Self(Quota::new(PER_SUBJECT))
    }
}

impl Streams {
    pub(super) fn open(&self) -> usize {
        self.0.total()
    }

    pub(super) fn enter(&self, principal: &Principal) -> Result<Place, RpcError> {
        self.0.enter(principal.subject()).ok_or_else(|| {
            let message = format!("{} has {PER_SUBJECT} streams open, the most allowed", principal.subject());
            RpcError::new(StatusCode::TOO_MANY_REQUESTS, -32603, message)
        })
    }
}

/// A principal's right to a stream it holds open.
#[derive(Debug)]
pub(super) struct Welcome {
    authenticator: Arc<Authenticator>,
    principal: Arc<Principal>,
    revocations: watch::Receiver<i64>,
    _place: Place,
}

impl Welcome {
    pub(super) fn new(authenticator: Arc<Authenticator>, principal: Arc<Principal>, place: Place) -> Self {
        Self { revocations: authenticator.revocations(), authenticator, principal, _place: place }
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
