//! Calls that continue while their client is not connected.
//!
//! In the stateless revision a question is sent as the response to a request, and its answer arrives with the next
//! request. In between the call is *parked*: it keeps running here, and the client holds a ticket for it (`seal`).
//! The resumed call is the same call with the same record. A call is never run again, not even if it was lost.
//!
//! | module | content |
//! |---|---|
//! | `answers` | the open questions of a call, and the answers received so far |
//! | `parked_calls` | the table of parked calls |
//! | `driver` | the task that drives a parked call |
//! | `seal` | `requestState` |
//! | `tasks` | calls whose state the client polls |

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
use super::running_call::{QuestionRound, RunningCall};
use answers::{KeyReuse, OpenQuestions};
use driver::{Driver, ParkedCall};
use parked_calls::{AnswerOutcome, ParkedCalls, ParkedEntry};
use seal::{Seal, Ticket};

#[derive(Debug)]
pub(super) struct DetachedCalls {
    parked_calls: Arc<ParkedCalls>,
    seal: Seal,
    supervisor: Supervisor,
    /// Time limit for an answer.
    timeout: Duration,
    next: AtomicU64,
    began: Instant,
}

/// A parked call, for the response to its client.
pub(super) struct ParkedReply {
    pub(super) call_id: CallId,
    pub(super) state: String,
    /// The JSON of `inputRequests`.
    pub(super) requests: String,
}

/// A resumed call.
pub(super) enum Resumed {
    /// The call continues. Dropping the guard cancels it.
    Call(Box<RunningCall>, DropGuard),
    /// Questions are still unanswered.
    InputRequired {
        state: String,
        requests: String,
    },
    Ended(Box<CallReply>),
}

/// The unanswered questions of a call.
struct UnansweredQuestions {
    answer_number: u64,
    deadline: Instant,
    requests: String,
}

impl DetachedCalls {
    pub(super) fn new(supervisor: Supervisor, timeout: Duration) -> Self {
        Self {
            parked_calls: Arc::default(),
            seal: Seal::new(),
            supervisor,
            timeout,
            next: AtomicU64::new(1),
            began: Instant::now(),
        }
    }

    /// The number of parked calls.
    pub(super) fn parked(&self) -> usize {
        self.parked_calls.count()
    }

    /// Parks a call until these questions are answered. If too many calls are parked, ends the questions with an
    /// error and returns the call.
    pub(super) fn park(
        &self,
        owner: &Principal,
        digest: [u8; 32],
        call: RunningCall,
        round: QuestionRound,
    ) -> Result<ParkedReply, Box<RunningCall>> {
        let slot = match self.parked_calls.enter(owner.subject()) {
            Ok(slot) => slot,
            Err(why) => {
                let _ = round.answer.send(Err(why));
                return Err(Box::new(call));
            }
        };
        let (id, call_id) = (self.next.fetch_add(1, Ordering::Relaxed), call.call_id());
        let (claim, claimed) = oneshot::channel();
        let mut open = OpenQuestions::new(KeyReuse::AfterAnswer);
        open.add(round);
        let deadline = Instant::now() + self.timeout;
        let unanswered = UnansweredQuestions { answer_number: 0, deadline, requests: open.requests() };
        let Some(state) = self.state(id, owner, digest, &unanswered) else { return Err(Box::new(call)) };
        let entry = ParkedEntry {
            answer_number: unanswered.answer_number,
            open,
            ended: false,
            deadline,
            cancel: call.cancel.clone(),
            claim,
            _slot: slot,
        };
        // Inserted before its driver starts, which looks it up.
        self.parked_calls.insert(id, entry);
        let driver = Driver {
            parked_calls: self.parked_calls.clone(),
            id,
            call,
            claim: claimed,
            timeout: self.timeout,
            deadline,
            stopping: self.supervisor.stopping(Stage::Intake),
        };
        self.supervisor.spawn(Stage::Work, "mcp parked call", driver.run().in_current_span());
        Ok(ParkedReply { call_id, state, requests: unanswered.requests })
    }

    /// Resumes a call with answers. Works once, only for the owner of the call, with the same request.
    pub(super) async fn resume(
        &self,
        owner: &Principal,
        digest: [u8; 32],
        state: &str,
        responses: Option<&RawValue>,
    ) -> Result<Resumed, StateError> {
        let ticket = self.ticket(owner, digest, state)?;
        let (claim, cancel) = match self.parked_calls.answer(&ticket, responses)? {
            AnswerOutcome::Incomplete(unanswered) => {
                let state = self.state(ticket.id, owner, digest, &unanswered).ok_or(StateError::Expired)?;
                return Ok(Resumed::InputRequired { state, requests: unanswered.requests });
            }
            AnswerOutcome::Complete { claim, cancel } => (claim, cancel),
        };
        // From here on the call belongs to this request and is cancelled with it.
        let guard = cancel.drop_guard();
        let (sender, receiver) = oneshot::channel();
        claim.send(sender).map_err(|_| StateError::Expired)?;
        match receiver.await {
            Ok(ParkedCall::Running(call)) => Ok(Resumed::Call(call, guard)),
            Ok(ParkedCall::Ended(reply)) => Ok(Resumed::Ended(reply)),
            Err(_) => Err(StateError::Expired),
        }
    }

    /// Cancels the parked call of a state, whose owner may no longer make it.
    pub(super) fn abandon(&self, owner: &Principal, digest: [u8; 32], state: &str) {
        if let Ok(ticket) = self.ticket(owner, digest, state) {
            // The driver notices the removal and cancels the call.
            drop(self.parked_calls.remove(ticket.id));
        }
    }

    /// The ticket in a state, if it is valid for this owner and request.
    fn ticket(&self, owner: &Principal, digest: [u8; 32], state: &str) -> Result<Ticket, StateError> {
        let ticket = self.seal.open(state)?;
        if ticket.owner != owner.subject() || ticket.digest != digest {
            return Err(StateError::Changed);
        }
        if ticket.expires <= self.millis(Instant::now()) {
            // No other ticket for the call exists, even if it has asked again since. The driver notices the removal
            // and cancels the call.
            drop(self.parked_calls.remove(ticket.id));
            return Err(StateError::Expired);
        }
        Ok(ticket)
    }

    fn state(
        &self,
        id: u64,
        owner: &Principal,
        digest: [u8; 32],
        open: &UnansweredQuestions,
    ) -> Option<String> {
        let (owner, expires) = (owner.subject().to_owned(), self.millis(open.deadline));
        self.seal.close(&Ticket { id, answer_number: open.answer_number, owner, expires, digest })
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Why a `requestState` is refused.
#[derive(Debug)]
pub(super) enum StateError {
    /// It was issued by an earlier process.
    Lost,
    Used,
    Expired,
    /// It was not issued for this request to this caller, or not at all. The answer does not say which.
    Changed,
    /// The state is valid, but the answers are not.
    Malformed(RpcError),
}

impl From<StateError> for RpcError {
    fn from(error: StateError) -> Self {
        let (word, message) = match error {
            StateError::Malformed(error) => return error,
            StateError::Lost => (
                "lost",
                "the call of this requestState was lost when the hub restarted. How far it came is unknown; it was not \
                 run again. Check its effects, and call again only if it has not done its work",
            ),
            StateError::Used => (
                "used",
                "this requestState was already used; each is valid for one request. The call was not run again",
            ),
            StateError::Expired => (
                "expired",
                "no answer arrived in time, so the call of this requestState was cancelled. It was not run again",
            ),
            StateError::Changed => {
                ("changed", "this requestState was not issued for this request; send both unchanged")
            }
        };
        Self::invalid_params(message).with_data(json!({ "plexus": word }))
    }
}

#[cfg(test)]
impl PartialEq for StateError {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
