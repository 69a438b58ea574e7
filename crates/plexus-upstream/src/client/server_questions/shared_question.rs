//! A question that may belong to any of one caller's requests.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use plexus_tools::{Answer, Inquiry, RawJson};

use super::super::Answerer;
use super::super::message::RequestId;

/// Concurrent requests of one caller, oldest first. The question is asked through the oldest; when that ends,
/// it continues through the next, since it may belong to that one. None of them can be repeated as if no
/// question had been asked.
pub(super) struct SharedQuestion(Vec<Arc<dyn Answerer>>);

impl SharedQuestion {
    pub(super) fn of(mut answerers: Vec<(RequestId, Arc<dyn Answerer>)>) -> Self {
        answerers.sort_by_key(|(id, _)| *id);
        Self(answerers.into_iter().map(|(_, answerer)| answerer).collect())
    }
}

impl Answerer for SharedQuestion {
    fn ask(&self, inquiry: Inquiry, params: Option<RawJson>) -> BoxFuture<'static, Answer> {
        self.0.iter().for_each(|answerer| answerer.note_asked());
        let answerers = self.0.clone();
        Box::pin(async move {
            let last = answerers.len().saturating_sub(1);
            for (index, answerer) in answerers.iter().enumerate() {
                if index < last && answerer.has_ended() {
                    continue;
                }
                let answer = answerer.ask(inquiry, params.clone()).await;
                if index == last || !(matches!(answer, Answer::Error { .. }) && answerer.has_ended()) {
                    return answer;
                }
            }
            super::refusal(super::INTERNAL, "the call that asked has ended")
        })
    }
}

#[cfg(test)]
mod tests;
