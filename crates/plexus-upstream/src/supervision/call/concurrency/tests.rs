use futures_util::FutureExt;

use super::*;

#[tokio::test]
async fn queue_limit_rejects_excess_calls() {
    let gate = Gate::new(Some(2));
    let running = [gate.enter("s").await.unwrap(), gate.enter("s").await.unwrap()];
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(gate.enter("s"))).collect();
    for enter in &mut waiting {
        assert!(enter.now_or_never().is_none());
    }
    let rejected = gate.enter("s").await.unwrap_err();
    assert_eq!(rejected.code, ErrorCode::Overloaded);
    drop(running);
    // First come, first served.
    assert!((&mut waiting[0]).now_or_never().unwrap().unwrap().is_some());
    drop(waiting);
    assert!(
        gate.enter("s").now_or_never().unwrap().unwrap().is_some(),
        "callers that stopped waiting are not counted"
    );
}

#[tokio::test]
async fn calls_without_a_limit_do_not_wait() {
    assert!(Gate::new(None).enter("s").await.unwrap().is_none());
}
