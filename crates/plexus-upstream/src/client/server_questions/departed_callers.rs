//! Callers who no longer wait for what a server may still be at work on.
//!
//! A server that was told to stop need not have heard it yet, and may ask or log something in the middle. Nothing says that
//! this is about the request that nobody waits for, so its caller counts among those who may be meant: for
//! [`REMEMBERED`], or until the server answers. Of [`MAX_DEPARTED`] requests it is known whose they are; while there are
//! more, anybody may be meant.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::message::RequestId;

const MAX_DEPARTED: usize = 64;
const REMEMBERED: Duration = Duration::from_secs(600);

/// The requests of one connection that nobody waits for any more.
#[derive(Debug, Default)]
pub(in super::super) struct DepartedCallers {
    /// The oldest first.
    requests: VecDeque<Request>,
    /// Some were too many to be remembered; one of them may be meant until then.
    crowded: Option<Instant>,
}

#[derive(Debug)]
struct Request {
    id: RequestId,
    caller: Option<Arc<str>>,
    until: Instant,
}

impl DepartedCallers {
    /// The server knows of a request, and nobody waits for it any more.
    pub(in super::super) fn leave(&mut self, id: RequestId, caller: Option<Arc<str>>) {
        self.leave_at(Instant::now(), id, caller);
    }

    fn leave_at(&mut self, now: Instant, id: RequestId, caller: Option<Arc<str>>) {
        self.requests.retain(|request| request.until > now);
        if self.requests.len() >= MAX_DEPARTED
            && let Some(oldest) = self.requests.pop_front()
        {
            self.crowded = Some(oldest.until);
        }
        self.requests.push_back(Request { id, caller, until: now + REMEMBERED });
    }

    /// The server has answered it.
    pub(in super::super) fn answered(&mut self, id: RequestId) {
        self.requests.retain(|request| request.id != id);
    }

    /// Whether a message may be for somebody else than this caller.
    pub(super) fn may_mean_another_than(&self, caller: Option<&Arc<str>>) -> bool {
        self.may_mean_at(Instant::now(), caller)
    }

    fn may_mean_at(&self, now: Instant, caller: Option<&Arc<str>>) -> bool {
        self.crowded.is_some_and(|until| until > now)
            || self.requests.iter().any(|request| request.until > now && request.caller.as_ref() != caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_left_may_be_meant_for_a_while_or_until_the_answer() {
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let now = Instant::now();
        let mut departed = DepartedCallers::default();
        assert!(!departed.may_mean_at(now, Some(&bob)));
        departed.leave_at(now, 1, Some(ann.clone()));
        assert!(departed.may_mean_at(now, Some(&bob)) && departed.may_mean_at(now, None));
        assert!(!departed.may_mean_at(now, Some(&ann)));
        departed.answered(1);
        assert!(!departed.may_mean_at(now, Some(&bob)));
        departed.leave_at(now, 2, None);
        assert!(departed.may_mean_at(now, Some(&bob)));
        assert!(!departed.may_mean_at(now + REMEMBERED, Some(&bob)));
    }

    #[test]
    fn beyond_what_is_remembered_anybody_may_be_meant() {
        let (ann, now): (Arc<str>, _) = ("ann".into(), Instant::now());
        let mut departed = DepartedCallers::default();
        (0..MAX_DEPARTED).for_each(|id| departed.leave_at(now, id as RequestId, Some(ann.clone())));
        assert!(!departed.may_mean_at(now, Some(&ann)));
        departed.leave_at(now, 1_000, Some(ann.clone()));
        assert_eq!(departed.requests.len(), MAX_DEPARTED);
        assert!(departed.may_mean_at(now, Some(&ann)));
        assert!(!departed.may_mean_at(now + REMEMBERED, Some(&ann)));
    }
}
