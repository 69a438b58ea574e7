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

/// Wakes itself `times` times before it completes.
fn self_waking(times: usize) -> impl Future<Output = ()> {
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
fn self_wakeup_is_polled_again_without_the_runtime() {
    assert_eq!(polled_once(in_place(self_waking(3))), (Poll::Ready(()), 0));
}

#[test]
fn endless_self_wakeups_yield_to_other_tasks() {
    assert_eq!(polled_once(in_place(self_waking(1_000))), (Poll::Pending, 1));
}

/// Wake-ups from another thread are never lost, regardless of timing.
#[tokio::test]
async fn wakeup_from_another_thread_is_not_lost() {
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
