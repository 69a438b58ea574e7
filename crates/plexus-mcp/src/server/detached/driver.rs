//! What keeps a parked call going until somebody comes back for it.
//!
//! One task has the call. It hands it over to the request that brought the answers, gives it up when nobody did in time,
//! and when the hub stops.

use std::sync::Arc;
use std::time::Duration;

use plexus_tools::{CallReply, Unasked};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::parked_calls::ParkedCalls;
use crate::server::running_call::{CallEvent, Next, RunningCall};

/// A call that is driven, or how it ended.
pub(super) enum Driven {
    Call(Box<RunningCall>),
    Ended(Box<CallReply>),
}

/// Whom a call is handed over to.
pub(super) type Taker = oneshot::Sender<Driven>;

pub(super) struct Driver {
    pub(super) parked_calls: Arc<ParkedCalls>,
    pub(super) id: u64,
    pub(super) call: RunningCall,
    pub(super) hand: oneshot::Receiver<Taker>,
    pub(super) patience: Duration,
    pub(super) until: Instant,
    /// Cancelled when the hub stops.
    pub(super) stopping: CancellationToken,
}

impl Driver {
    pub(super) async fn run(self) {
        let Self { parked_calls, id, call, mut hand, patience, mut until, stopping } = self;
        let _leaves = Leaves { parked_calls: parked_calls.clone(), id };
        let cancel = call.cancel.clone();
        let mut driven = Driven::Call(Box::new(call));
        let given_up = loop {
            tokio::select! {
                biased;
                taker = &mut hand => return hand_over(driven, taker, &cancel).await,
                () = stopping.cancelled() => break Unasked::Gone,
                () = tokio::time::sleep_until(until) => break Unasked::Expired,
                next = next(&mut driven) => match next {
                    Next::Event(CallEvent::Asked(round)) => {
                        until = Instant::now() + patience;
                        if let Some(round) = parked_calls.asked(id, round, until) {
                            // Somebody has come for it, who is asked this.
                            put_back(&mut driven, CallEvent::Asked(round));
                            return hand_over(driven, hand.await, &cancel).await;
                        }
                    }
                    Next::Event(CallEvent::Progress(_) | CallEvent::Log(_)) => {}
                    Next::Ended(reply) => {
                        driven = Driven::Ended(Box::new(reply));
                        parked_calls.ended(id);
                    }
                },
            }
        };
        match parked_calls.remove(id) {
            Some(mut entry) => entry.open.close(&given_up),
            // Somebody was faster.
            None => return hand_over(driven, hand.await, &cancel).await,
        }
        cancel.cancel();
        to_the_end(driven).await;
    }
}

/// However the driver ends, nothing waits on the lot that nobody drives.
struct Leaves {
    parked_calls: Arc<ParkedCalls>,
    id: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        drop(self.parked_calls.remove(self.id));
    }
}

/// Gives the call to whoever has come for it; one that was only taken off the lot is wanted by nobody.
async fn hand_over(driven: Driven, taker: Result<Taker, RecvError>, cancel: &CancellationToken) {
    let unwanted = match taker {
        Ok(taker) => taker.send(driven).err(),
        Err(_) => Some(driven),
    };
    if let Some(driven) = unwanted {
        cancel.cancel();
        to_the_end(driven).await;
    }
}

async fn next(driven: &mut Driven) -> Next {
    match driven {
        Driven::Call(call) => call.next().await,
        Driven::Ended(_) => std::future::pending().await,
    }
}

fn put_back(driven: &mut Driven, told: CallEvent) {
    if let Driven::Call(call) = driven {
        call.put_back(told);
    }
}

/// Nobody listens: what it asks is not answered.
async fn to_the_end(driven: Driven) {
    if let Driven::Call(mut call) = driven {
        while let Next::Event(_) = call.next().await {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::super::answers::{Keys, Open};
    use super::super::parked_calls::{Entry, ParkedCalls};
    use super::Leaves;

    #[test]
    fn what_is_driven_no_more_gives_its_place_on_the_lot_back() {
        let parked_calls = Arc::new(ParkedCalls::default());
        let entry = |hand| Entry {
            once: 0,
            open: Open::new(Keys::Anew),
            ended: false,
            until: Instant::now(),
            cancel: CancellationToken::new(),
            hand,
            _place: parked_calls.enter("ann").unwrap(),
        };
        let (hand, mut handed) = oneshot::channel();
        parked_calls.insert(1, entry(hand));
        parked_calls.insert(2, entry(oneshot::channel().0));
        drop(Leaves { parked_calls: parked_calls.clone(), id: 1 });
        assert_eq!(parked_calls.count(), 1, "the other is still driven");
        assert!(handed.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
    }
}
