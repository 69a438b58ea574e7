//! The right to hold a stream open: for as long as the token lives, and only so many at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use plexus_auth::{Authenticator, Principal};
use tokio::sync::watch;

use super::rpc::RpcError;

/// Streams of one subject at the same time; one more is refused.
const PER_SUBJECT: usize = 128;
/// Longest sleep before the time that is left is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Open streams by subject.
#[derive(Debug, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

impl Streams {
    pub(super) fn enter(&self, principal: &Principal) -> Result<Place, RpcError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(principal.subject().to_owned()).or_default();
        if *count >= PER_SUBJECT {
            let message = format!("{} has {PER_SUBJECT} streams open, the most allowed", principal.subject());
            return Err(RpcError::new(StatusCode::TOO_MANY_REQUESTS, -32603, message));
        }
        *count += 1;
        Ok(Place { subject: principal.subject().to_owned(), open: self.0.clone() })
    }
}

/// One open stream; counted until dropped.
#[derive(Debug)]
pub(super) struct Place {
    subject: String,
    open: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.subject) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.subject);
            }
        }
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
