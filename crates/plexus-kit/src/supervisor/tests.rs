use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Stage, Supervisor};

#[tokio::test(start_paused = true)]
async fn stages_stop_in_order_and_stuck_tasks_are_named() {
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
async fn restarting_task_runs_again_after_it_ends() {
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

#[tokio::test(start_paused = true)]
async fn abandoned_work_continues_as_a_task() {
    let supervisor = Supervisor::new();
    assert_eq!(supervisor.run_to_completion(Stage::Work, "waited for", async { 7 }).await, 7);
    assert_eq!(supervisor.count(Stage::Work), 0);

    let (go_on, told) = tokio::sync::oneshot::channel::<()>();
    let (done, mut seen) = tokio::sync::mpsc::channel(1);
    let work = supervisor.run_to_completion(Stage::Work, "left alone", async move {
        told.await.unwrap();
        done.send("to its end").await.unwrap();
    });
    // The work has started when its caller leaves.
    assert!(tokio::time::timeout(Duration::from_secs(1), work).await.is_err());
    assert_eq!(supervisor.count(Stage::Work), 1);
    go_on.send(()).unwrap();
    assert_eq!(seen.recv().await, Some("to its end"));
    assert!(supervisor.shutdown(Duration::from_secs(1)).await.aborted.is_empty());
}

#[test]
fn runtime_shutdown_does_not_wait_for_abandoned_work() {
    let supervisor = Supervisor::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let work =
        supervisor.run_to_completion(Stage::Work, "left with the runtime", std::future::pending::<()>());
    let waiting = supervisor.clone();
    runtime.block_on(async {
        waiting.spawn(Stage::Intake, "holder", work);
        tokio::task::yield_now().await;
    });
    // Drops the holder; its work would continue as a task on a runtime that accepts none.
    drop(runtime);
    assert_eq!((supervisor.count(Stage::Intake), supervisor.count(Stage::Work)), (0, 0));
}
