use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::answers::{KeyReuse, OpenQuestions};
use super::super::parked_calls::{ParkedCalls, ParkedEntry};
use super::RemoveOnDrop;

#[test]
fn ended_driver_removes_its_entry() {
    let parked_calls = Arc::new(ParkedCalls::default());
    let entry = |claim| ParkedEntry {
        answer_number: 0,
        open: OpenQuestions::new(KeyReuse::AfterAnswer),
        ended: false,
        deadline: Instant::now(),
        cancel: CancellationToken::new(),
        claim,
        _slot: parked_calls.enter("ann").unwrap(),
    };
    let (claim, mut claimed) = oneshot::channel();
    parked_calls.insert(1, entry(claim));
    parked_calls.insert(2, entry(oneshot::channel().0));
    drop(RemoveOnDrop { parked_calls: parked_calls.clone(), id: 1 });
    assert_eq!(parked_calls.count(), 1, "the other is still driven");
    assert!(claimed.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
}
