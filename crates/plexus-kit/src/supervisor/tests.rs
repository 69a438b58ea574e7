use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Stage, Supervisor};

#[tokio::test(start_paused = true)]
async fn stages_end_in_order_and_a_stuck_task_is_named() {
    let supervisor = Supervisor::new();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for stage in [Stage::Storage, Stage::Intake] {
        let (stop, order) = (supervisor.stopping(stage), order.clone());
        supervisor.spawn(stage, format!("{stage:?}"), async move {
            stop.cancelled().await;
            order.lock().unwrap().push(stage);
        });
    }
    supervisor.spawn(Stage::Work, "call that never ends", std::future::pending());

    let drained = supervisor.shutdown(Duration::from_secs(5)).await;

    assert_eq!(drained.aborted, ["call that never ends"]);
    assert_eq!(*order.lock().unwrap(), [Stage::Intake, Stage::Storage]);
}

#[tokio::test(start_paused = true)]
async fn a_restarting_task_comes_back_after_it_ends() {
    let supervisor = Supervisor::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let counter = runs.clone();
    supervisor.spawn_restarting(Stage::Work, "flaky", move || {
        let (counter, tx) = (counter.clone(), tx.clone());
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = tx.send(());
        }
    });
    for _ in 0..3 {
        rx.recv().await.unwrap();
    }
    assert!(supervisor.shutdown(Duration::from_secs(1)).await.aborted.is_empty());
    assert!(runs.load(Ordering::SeqCst) >= 3);
}
