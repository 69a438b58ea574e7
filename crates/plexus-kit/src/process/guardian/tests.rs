use std::time::Duration;

use super::*;

fn sleeper() -> Child {
    let mut command = Command::new("sleep");
    command.arg("1000").process_group(0).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
async fn guardian_kills_the_group_when_the_hub_is_gone() {
    let mut sleeper = sleeper();
    let mut guardian = Guardian::of(sleeper.id().unwrap()).unwrap();
    // The kernel does this when the hub dies.
    drop(guardian.0.stdin.take());
    let ended = tokio::time::timeout(Duration::from_secs(20), sleeper.wait()).await;
    assert_eq!(ended.expect("not killed in time").unwrap().to_string(), "signal: 9 (SIGKILL)");
    assert!(guardian.0.wait().await.unwrap().success());
}

#[tokio::test]
async fn dismissed_guardian_does_nothing() {
    let mut sleeper = sleeper();
    Guardian::of(sleeper.id().unwrap()).unwrap().dismiss().await;
    assert!(sleeper.try_wait().unwrap().is_none(), "was killed");
}
