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
