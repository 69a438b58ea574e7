//! Drives a parked call until a request resumes it.
//!
//! One task owns the call. It hands the call over to the request that brings the answers, and cancels it when none
//! arrives in time or the hub stops.

use std::sync::Arc;
use std::time::Duration;

use plexus_tools::{AskError, CallReply};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::parked_calls::ParkedCalls;
use crate::server::running_call::{CallEvent, CallStep, RunningCall};

/// A parked call, or its reply if it has ended.
pub(super) enum ParkedCall {
    Running(Box<RunningCall>),
    Ended(Box<CallReply>),
}

/// The channel on which a resuming request receives the call.
pub(super) type Claim = oneshot::Sender<ParkedCall>;

pub(super) struct Driver {
    pub(super) parked_calls: Arc<ParkedCalls>,
    pub(super) id: u64,
    pub(super) call: RunningCall,
    pub(super) claim: oneshot::Receiver<Claim>,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
    /// Cancelled when the hub stops.
    pub(super) stopping: CancellationToken,
}

impl Driver {
    pub(super) async fn run(self) {
        let Self { parked_calls, id, call, mut claim, timeout, mut deadline, stopping } = self;
        let _removal = RemoveOnDrop { parked_calls: parked_calls.clone(), id };
        let cancel = call.cancel.clone();
        let mut parked = ParkedCall::Running(Box::new(call));
        let reason = loop {
            tokio::select! {
                biased;
                claimed = &mut claim => return hand_over(parked, claimed, &cancel).await,
                () = stopping.cancelled() => break AskError::Gone,
                () = tokio::time::sleep_until(deadline) => break AskError::Expired,
                step = next(&mut parked) => match step {
                    CallStep::Event(CallEvent::Questions(round)) => {
                        deadline = Instant::now() + timeout;
                        if let Some(round) = parked_calls.add_questions(id, round, deadline) {
                            // A request has claimed the call; it asks these questions.
                            put_back(&mut parked, CallEvent::Questions(round));
                            return hand_over(parked, claim.await, &cancel).await;
                        }
                    }
                    CallStep::Event(CallEvent::Progress(_) | CallEvent::Log(_)) => {}
                    CallStep::Ended(reply) => {
                        parked = ParkedCall::Ended(Box::new(reply));
                        parked_calls.mark_ended(id);
                    }
                },
            }
        };
        match parked_calls.remove(id) {
            Some(mut entry) => entry.open.close(&reason),
            // A request claimed it first.
            None => return hand_over(parked, claim.await, &cancel).await,
        }
        cancel.cancel();
        run_to_end(parked).await;
    }
}

/// Removes the entry when the driver ends, also after a panic.
struct RemoveOnDrop {
    parked_calls: Arc<ParkedCalls>,
    id: u64,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        drop(self.parked_calls.remove(self.id));
    }
}

/// Gives the call to the request that claimed it. Cancels it if its entry was only removed or the request is gone.
async fn hand_over(parked: ParkedCall, claim: Result<Claim, RecvError>, cancel: &CancellationToken) {
    let unclaimed = match claim {
        Ok(claim) => claim.send(parked).err(),
        Err(_) => Some(parked),
    };
    if let Some(parked) = unclaimed {
        cancel.cancel();
        run_to_end(parked).await;
    }
}

async fn next(parked: &mut ParkedCall) -> CallStep {
    match parked {
        ParkedCall::Running(call) => call.next().await,
        ParkedCall::Ended(_) => std::future::pending().await,
    }
}

fn put_back(parked: &mut ParkedCall, event: CallEvent) {
    if let ParkedCall::Running(call) = parked {
        call.put_back(event);
    }
}

/// Discards all events; questions are not answered.
async fn run_to_end(parked: ParkedCall) {
    if let ParkedCall::Running(mut call) = parked {
        while let CallStep::Event(_) = call.next().await {}
    }
}

#[cfg(test)]
mod tests;
