//! Limits the open streams of a subject.

use http::StatusCode;
use plexus_auth::Principal;
use plexus_kit::{Quota, QuotaSlot};

use super::rpc::RpcError;

/// Most open streams of a subject.
const MAX_PER_SUBJECT: usize = 128;

/// Counts the open streams of each subject.
#[derive(Debug)]
pub(super) struct StreamQuota(Quota);

impl Default for StreamQuota {
    fn default() -> Self {
        Self(Quota::new(MAX_PER_SUBJECT))
    }
}

impl StreamQuota {
    pub(super) fn open(&self) -> usize {
        self.0.total()
    }

    pub(super) fn enter(&self, principal: &Principal) -> Result<QuotaSlot, RpcError> {
        self.0.enter(principal.subject()).ok_or_else(|| {
            let message = format!(
                "{} already has {MAX_PER_SUBJECT} open streams, which is the limit",
                principal.subject()
            );
            RpcError::new(StatusCode::TOO_MANY_REQUESTS, -32603, message)
        })
    }
}
