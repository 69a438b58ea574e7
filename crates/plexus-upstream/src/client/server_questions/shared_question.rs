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
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::super::result;
    use super::*;

    /// Answers when told to.
    #[derive(Default)]
    struct Call {
        questions: AtomicUsize,
        was_asked: AtomicBool,
        answers: CancellationToken,
        over: CancellationToken,
    }

    impl Answerer for Call {
        fn ask(&self, _: Inquiry, _: Option<RawJson>) -> BoxFuture<'static, Answer> {
            self.questions.fetch_add(1, Ordering::Relaxed);
            let (answers, over) = (self.answers.clone(), self.over.clone());
            Box::pin(async move {
                tokio::select! {
                    biased;
                    () = over.cancelled() => super::super::refusal(-1, "over"),
                    () = answers.cancelled() => result("{}"),
                }
            })
        }

        fn note_asked(&self) {
            self.was_asked.store(true, Ordering::Relaxed);
        }

        fn has_ended(&self) -> bool {
            self.over.is_cancelled()
        }
    }

    #[test]
    fn question_moves_on_when_its_request_ends() {
        let calls = [(); 3].map(|()| Arc::new(Call::default()));
        let together =
            SharedQuestion::of(vec![(7, calls[1].clone()), (9, calls[2].clone()), (3, calls[0].clone())]);
        let mut asking = together.ask(Inquiry::Roots, None);
        let questions = || [0, 1, 2].map(|call| calls[call].questions.load(Ordering::Relaxed));
        assert!(asking.as_mut().now_or_never().is_none());
        assert_eq!(questions(), [1, 0, 0], "the oldest request asks");
        assert!(calls.iter().all(|call| call.was_asked.load(Ordering::Relaxed)), "none may be repeated");
        calls[0].over.cancel();
        assert!(asking.as_mut().now_or_never().is_none());
        assert_eq!(questions(), [1, 1, 0]);
        calls[1].answers.cancel();
        assert_eq!(asking.now_or_never(), Some(result("{}")));
        assert_eq!(questions(), [1, 1, 0]);
    }
}
