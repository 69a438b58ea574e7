//! A task that wakes itself, and is polled again where it is.
//!
//! Within the task of a connection the halves of hyper talk to each other: the one that reads hands the body to the one
//! that answers, the one that asks a server hears from the one that holds the line. Each word wakes the other half, which
//! is the task that runs already. To the runtime that is a task that gives up its turn: it is queued again, and another
//! thread is woken to take it over. For a call that is a few threads woken for nothing, and costs more than its work.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often in a row; then others have their turn.
const TURNS: usize = 8;

/// Nobody polls it, and nobody has asked for that.
const RESTING: u8 = 0;
const POLLED: u8 = 1;
/// It is to be polled (again).
const WOKEN: u8 = 2;

/// Runs the future and polls it again at once when it was woken while it was polled.
pub async fn in_place<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let doorbell = Arc::new(Doorbell::default());
    let waker = Waker::from(doorbell.clone());
    poll_fn(|context| doorbell.poll(future.as_mut(), &waker, context)).await
}

#[derive(Default)]
struct Doorbell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Doorbell {
    fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(context.waker());
        for _ in 0..TURNS {
            self.state.store(POLLED, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let unheard = self.state.compare_exchange(POLLED, RESTING, Ordering::AcqRel, Ordering::Acquire);
            if unheard.is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Doorbell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == RESTING {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    /// Counts how often the runtime is asked to poll the task.
    #[derive(Default)]
    struct Runtime(AtomicUsize);

    impl Wake for Runtime {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes itself so many times before it ends.
    fn restless(times: usize) -> impl Future<Output = ()> {
        let mut left = times;
        poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn polled_once(future: impl Future<Output = ()>) -> (Poll<()>, usize) {
        let runtime = Arc::new(Runtime::default());
        let waker = Waker::from(runtime.clone());
        let poll = pin!(future).poll(&mut Context::from_waker(&waker));
        (poll, runtime.0.load(Ordering::Relaxed))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_without_the_runtime() {
        assert_eq!(polled_once(in_place(restless(3))), (Poll::Ready(()), 0));
    }

    #[test]
    fn what_does_nothing_else_gives_way_to_others() {
        assert_eq!(polled_once(in_place(restless(1_000))), (Poll::Pending, 1));
    }

    /// From another thread, at any moment: no wake-up is lost.
    #[tokio::test]
    async fn what_is_woken_from_elsewhere_goes_on() {
        let (bells, rung) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
        let ringer = std::thread::spawn(move || rung.into_iter().try_for_each(|bell| bell.send(())));
        let work = async move {
            for _ in 0..20_000 {
                let (bell, heard) = tokio::sync::oneshot::channel();
                bells.send(bell).unwrap();
                heard.await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), in_place(work)).await.expect("a wake-up was lost");
        ringer.join().unwrap().unwrap();
    }
}
