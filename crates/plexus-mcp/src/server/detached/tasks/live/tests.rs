use plexus_store::TaskStatus;

use super::catch_panic;

#[tokio::test]
async fn task_whose_driver_panics_has_failed() {
    let end = catch_panic(async { panic!("a bug in the hub") }).await;
    assert_eq!(end.status, TaskStatus::Failed);
    assert!(end.message.unwrap().contains("unknown whether the task has done its work"));
}
