//! Re-polls a future that wakes itself, without rescheduling its task.
//!
//! The halves of a hyper connection communicate within one task: the reading half hands the body to the
//! answering half, and a requesting half waits for the half that owns the connection. Each message wakes the
//! other half, which is the task already running. The runtime treats this as a yield: it queues the task
//! again and wakes another thread to steal it. For one call this wakes several threads needlessly, which
//! costs more than the call itself.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Maximum number of polls in a row; then other tasks get their turn.
const MAX_POLLS: usize = 8;

/// Not being polled, and no wake-up is pending.
const IDLE: u8 = 0;
const POLLING: u8 = 1;
/// A wake-up is pending.
const WOKEN: u8 = 2;

/// Runs the future, and polls it again immediately if it was woken during the poll.
pub async fn in_place<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker_state = Arc::new(SelfWaker::default());
    let waker = Waker::from(waker_state.clone());
    poll_fn(|context| waker_state.poll(future.as_mut(), &waker, context)).await
}

#[derive(Default)]
struct SelfWaker {
    state: AtomicU8,
    task: AtomicWaker,
}

impl SelfWaker {
    fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(context.waker());
        for _ in 0..MAX_POLLS {
            self.state.store(POLLING, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let not_woken = self.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if not_woken.is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for SelfWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests;
