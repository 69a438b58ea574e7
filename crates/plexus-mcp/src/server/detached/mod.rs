//! Calls that go on while their client is not connected.
//!
//! In the stateless revision a question is the answer to a request, and the answer to it comes with the next one. In
//! between the call is *parked*: it goes on running, here, and the client has a ticket for it (`seal`). It is the same
//! call that goes on, with the same record; it is never run again, not even when it was lost.
//!
//! | module | what is in it |
//! |---|---|
//! | `answers` | the questions that a call has open, and the answers that came |
//! | `parked_calls` | the calls that wait |
//! | `driver` | what keeps one of them going |
//! | `seal` | `requestState` |
//! | `tasks` | calls that are asked after instead of waited for |

mod answers;
mod driver;
mod parked_calls;
mod seal;
pub(super) mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_auth::Principal;
use plexus_kit::{Stage, Supervisor};
use plexus_proto::CallId;
use plexus_tools::CallReply;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use tracing::Instrument;

use super::rpc::RpcError;
use super::running_call::{Round, RunningCall};
use answers::{Keys, Open};
use driver::{Driven, Driver};
use parked_calls::{Answered, Entry, ParkedCalls};
use seal::{Seal, Ticket};

#[derive(Debug)]
pub(super) struct DetachedCalls {
    parked_calls: Arc<ParkedCalls>,
    seal: Seal,
    supervisor: Supervisor,
    /// How long an answer is waited for.
    patience: Duration,
    next: AtomicU64,
    began: Instant,
}

/// A call that waits, as its client is told.
pub(super) struct Parked {
    pub(super) call_id: CallId,
    pub(super) state: String,
    /// `inputRequests`, as JSON.
    pub(super) requests: String,
}

/// A call that was come back for.
pub(super) enum Resumed {
    /// It goes on, and is cancelled when this is dropped.
    Call(Box<RunningCall>, DropGuard),
    /// Something is still to be answered.
    Again {
        state: String,
        requests: String,
    },
    Ended(Box<CallReply>),
}

/// What is still to be answered.
struct Unanswered {
    once: u64,
    until: Instant,
    requests: String,
}

impl DetachedCalls {
    pub(super) fn new(supervisor: Supervisor, patience: Duration) -> Self {
        Self {
            parked_calls: Arc::default(),
            seal: Seal::new(),
            supervisor,
            patience,
            next: AtomicU64::new(1),
            began: Instant::now(),
        }
    }

    /// Calls that wait for an answer.
    pub(super) fn parked(&self) -> usize {
        self.parked_calls.count()
    }

    /// Lets a call wait for the answers to these. Where too many do, whoever asks is told so, and the call comes back.
    pub(super) fn park(
        &self,
        owner: &Principal,
        digest: [u8; 32],
        call: RunningCall,
        round: Round,
    ) -> Result<Parked, Box<RunningCall>> {
        let place = match self.parked_calls.enter(owner.subject()) {
            Ok(place) => place,
            Err(why) => {
                let _ = round.answer.send(Err(why));
                return Err(Box::new(call));
            }
        };
        let (id, call_id) = (self.next.fetch_add(1, Ordering::Relaxed), call.call_id());
        let (hand, handed) = oneshot::channel();
        let mut open = Open::new(Keys::Anew);
        open.add(round);
        let unanswered =
            Unanswered { once: 0, until: Instant::now() + self.patience, requests: open.requests() };
        let Some(state) = self.state(id, owner, digest, &unanswered) else { return Err(Box::new(call)) };
        let entry = Entry {
            once: unanswered.once,
            open,
            ended: false,
            until: unanswered.until,
            cancel: call.cancel.clone(),
            hand,
            _place: place,
        };
        // Before its driver, which looks for it here.
        self.parked_calls.insert(id, entry);
        let driver = Driver {
            parked_calls: self.parked_calls.clone(),
            id,
            call,
            hand: handed,
            patience: self.patience,
            until: unanswered.until,
            stopping: self.supervisor.stopping(Stage::Intake),
        };
        self.supervisor.spawn(Stage::Work, "mcp parked call", driver.run().in_current_span());
        Ok(Parked { call_id, state, requests: unanswered.requests })
    }

    /// Comes back for a call with answers. Only who made the call, with the request that made it, once.
    pub(super) async fn take(
        &self,
        owner: &Principal,
        digest: [u8; 32],
        state: &str,
        responses: Option<&RawValue>,
    ) -> Result<Resumed, Refusal> {
        let ticket = self.ticket(owner, digest, state)?;
        let (hand, cancel) = match self.parked_calls.answer(&ticket, responses)? {
            Answered::Again(unanswered) => {
                let state = self.state(ticket.id, owner, digest, &unanswered).ok_or(Refusal::Expired)?;
                return Ok(Resumed::Again { state, requests: unanswered.requests });
            }
            Answered::Whole { hand, cancel } => (hand, cancel),
        };
        // From here on it belongs to this request, and ends with it.
        let guard = cancel.drop_guard();
        let (taker, taken) = oneshot::channel();
        hand.send(taker).map_err(|_| Refusal::Expired)?;
        match taken.await {
            Ok(Driven::Call(call)) => Ok(Resumed::Call(call, guard)),
            Ok(Driven::Ended(reply)) => Ok(Resumed::Ended(reply)),
            Err(_) => Err(Refusal::Expired),
        }
    }

    /// Gives up the call of a state: its caller may not have it any more.
    pub(super) fn give_up(&self, owner: &Principal, digest: [u8; 32], state: &str) {
        if let Ok(ticket) = self.ticket(owner, digest, state) {
            // Its driver sees that nobody can come for it now.
            drop(self.parked_calls.remove(ticket.id));
        }
    }

    /// What a state stands for, if it is good here and now.
    fn ticket(&self, owner: &Principal, digest: [u8; 32], state: &str) -> Result<Ticket, Refusal> {
        let ticket = self.seal.open(state)?;
        if ticket.owner != owner.subject() || ticket.digest != digest {
            return Err(Refusal::Changed);
        }
        if ticket.expires <= self.millis(Instant::now()) {
            // Nobody has another ticket for it, also where it has asked again since: its driver sees that, and ends it.
            drop(self.parked_calls.remove(ticket.id));
            return Err(Refusal::Expired);
        }
        Ok(ticket)
    }

    fn state(&self, id: u64, owner: &Principal, digest: [u8; 32], open: &Unanswered) -> Option<String> {
        let (owner, expires) = (owner.subject().to_owned(), self.millis(open.until));
        self.seal.close(&Ticket { id, once: open.once, owner, expires, digest })
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Why a state opens nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is of an earlier process.
    Lost,
    Used,
    Expired,
    /// It was not given for this request to this caller, or not at all. Which of these is nobody's business.
    Changed,
    /// The state is good, what came with it is not.
    Malformed(RpcError),
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let (word, message) = match refusal {
            Refusal::Malformed(error) => return error,
            Refusal::Lost => (
                "lost",
                "the call that this requestState belongs to was lost when the hub was restarted; nobody knows how far \
                 it came, and it was not run again. Look first, and call again only if it has not done its work",
            ),
            Refusal::Used => (
                "used",
                "this requestState was used before: each is good for one request. The call was not run again",
            ),
            Refusal::Expired => (
                "expired",
                "nobody answered in time, and the call that this requestState belongs to was cancelled; it was not run \
                 again",
            ),
            Refusal::Changed => {
                ("changed", "this requestState was not given for this request; send both as they were")
            }
        };
        Self::invalid_params(message).with_data(json!({ "plexus": word }))
    }
}

#[cfg(test)]
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
