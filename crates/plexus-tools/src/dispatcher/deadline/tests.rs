use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::advance;

use super::Deadline;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn deadline_is_paused_while_any_question_is_open() {
    let deadline = Deadline::default();
    let mut passed = std::pin::pin!(deadline.passed(3 * SECOND));
    assert!(passed.as_mut().now_or_never().is_none());
    advance(2 * SECOND).await;
    let first = deadline.pause();
    let second = deadline.pause();
    assert!(passed.as_mut().now_or_never().is_none());
    advance(1_000 * SECOND).await;
    drop(first);
    assert!(passed.as_mut().now_or_never().is_none(), "another question is still open");
    advance(1_000 * SECOND).await;
    drop(second);
    assert!(passed.as_mut().now_or_never().is_none());
    advance(SECOND / 2).await;
    assert!(passed.as_mut().now_or_never().is_none(), "half a second is left");
    advance(SECOND).await;
    assert!(passed.as_mut().now_or_never().is_some());
}
