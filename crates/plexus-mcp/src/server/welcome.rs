//! The right to hold a stream open: only so many at a time, and each for as long as its token lives.

use http::StatusCode;
use plexus_auth::Principal;
pub(super) use plexus_auth::Welcome;
use plexus_kit::{Quota, QuotaSlot};

use super::rpc::RpcError;

/// Streams of one subject at the same time; one more is refused.
const PER_SUBJECT: usize = 128;

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

    pub(super) fn enter(&self, principal: &Principal) -> Result<QuotaSlot, RpcError> {
        self.0.enter(principal.subject()).ok_or_else(|| {
            let message = format!("{} has {PER_SUBJECT} streams open, the most allowed", principal.subject());
            RpcError::new(StatusCode::TOO_MANY_REQUESTS, -32603, message)
        })
    }
}
