//! Callers that no longer wait for a request that a server may still be working on.
//!
//! A server may ask or log before it processes a cancellation, and its message does not name the cancelled
//! request. The request's caller therefore counts among those that a message may concern: for [`REMEMBER_TIME`],
//! or until the server answers. The callers of [`MAX_DEPARTED`] requests are remembered; while there are
//! more, a message may concern anyone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::message::RequestId;

const MAX_DEPARTED: usize = 64;
const REMEMBER_TIME: Duration = Duration::from_secs(600);

/// The requests of one connection that nobody waits for any more.
#[derive(Debug, Default)]
pub(in super::super) struct DepartedCallers {
    /// Oldest first.
    requests: VecDeque<Request>,
    /// Until when a forgotten request beyond the limit may still be concerned.
    overflow_until: Option<Instant>,
}

#[derive(Debug)]
struct Request {
    id: RequestId,
    caller: Option<Arc<str>>,
    until: Instant,
}

impl DepartedCallers {
    /// Records that nobody waits any more for a request that the server knows.
    pub(in super::super) fn leave(&mut self, id: RequestId, caller: Option<Arc<str>>) {
        self.leave_at(Instant::now(), id, caller);
    }

    fn leave_at(&mut self, now: Instant, id: RequestId, caller: Option<Arc<str>>) {
        self.requests.retain(|request| request.until > now);
        if self.requests.len() >= MAX_DEPARTED
            && let Some(oldest) = self.requests.pop_front()
        {
            self.overflow_until = Some(oldest.until);
        }
        self.requests.push_back(Request { id, caller, until: now + REMEMBER_TIME });
    }

    /// Records that the server has answered.
    pub(in super::super) fn answered(&mut self, id: RequestId) {
        self.requests.retain(|request| request.id != id);
    }

    /// Whether a message may concern a caller other than this one.
    pub(super) fn may_concern_other_than(&self, caller: Option<&Arc<str>>) -> bool {
        self.may_concern_other_at(Instant::now(), caller)
    }

    fn may_concern_other_at(&self, now: Instant, caller: Option<&Arc<str>>) -> bool {
        self.overflow_until.is_some_and(|until| until > now)
            || self.requests.iter().any(|request| request.until > now && request.caller.as_ref() != caller)
    }
}

#[cfg(test)]
mod tests;
