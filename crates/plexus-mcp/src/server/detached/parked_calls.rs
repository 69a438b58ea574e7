//! The table of parked calls and their open questions.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_kit::{Quota, QuotaSlot};
use plexus_tools::AskError;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::OpenQuestions;
use super::driver::Claim;
use super::seal::Ticket;
use super::{StateError, UnansweredQuestions};
use crate::server::running_call::QuestionRound;

/// Most parked calls of one subject.
const MAX_PER_SUBJECT: usize = 16;
/// Most parked calls of all subjects.
const MAX_TOTAL: usize = 256;

/// Locked briefly, never across an await.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    entries: Mutex<HashMap<u64, ParkedEntry>>,
    quota: Quota,
}

pub(super) struct ParkedEntry {
    /// The number of the next expected answer.
    pub(super) answer_number: u64,
    pub(super) open: OpenQuestions,
    /// The call has ended.
    pub(super) ended: bool,
    pub(super) deadline: Instant,
    pub(super) cancel: CancellationToken,
    /// Claims the call from its driver.
    pub(super) claim: ClaimSender,
    pub(super) _slot: QuotaSlot,
}

pub(super) type ClaimSender = oneshot::Sender<Claim>;

/// The effect of answers.
pub(super) enum AnswerOutcome {
    /// Some questions are still open.
    Incomplete(UnansweredQuestions),
    /// The call can continue. It is no longer in the table.
    Complete { claim: ClaimSender, cancel: CancellationToken },
}

impl Default for ParkedCalls {
    fn default() -> Self {
        Self { entries: Mutex::default(), quota: Quota::new(MAX_PER_SUBJECT) }
    }
}

impl ParkedCalls {
    /// Reserves a place for a parked call.
    pub(super) fn enter(&self, owner: &str) -> Result<QuotaSlot, AskError> {
        const SUBJECT_LIMIT: &str =
            "too many of your calls wait for an answer: answer one of the open questions first";
        const TOTAL_LIMIT: &str = "too many calls at the hub wait for an answer; try again later";
        if self.quota.total() >= MAX_TOTAL {
            return Err(AskError::TooMany(TOTAL_LIMIT));
        }
        self.quota.enter(owner).ok_or(AskError::TooMany(SUBJECT_LIMIT))
    }

    pub(super) fn insert(&self, id: u64, entry: ParkedEntry) {
        self.entries().insert(id, entry);
    }

    pub(super) fn remove(&self, id: u64) -> Option<ParkedEntry> {
        self.entries().remove(&id)
    }

    pub(super) fn count(&self) -> usize {
        self.entries().len()
    }

    /// Adds a round of questions to a parked call. Returns it if the call is no longer parked.
    pub(super) fn add_questions(
        &self,
        id: u64,
        round: QuestionRound,
        deadline: Instant,
    ) -> Option<QuestionRound> {
        match self.entries().get_mut(&id) {
            Some(entry) => {
                entry.deadline = deadline;
                entry.open.add(round);
                None
            }
            None => Some(round),
        }
    }

    pub(super) fn mark_ended(&self, id: u64) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.ended = true;
        }
    }

    /// Accepts the answers for the call of a ticket.
    pub(super) fn answer(
        &self,
        ticket: &Ticket,
        responses: Option<&RawValue>,
    ) -> Result<AnswerOutcome, StateError> {
        let mut entries = self.entries();
        // An answered or cancelled call has no entry.
        let entry = entries.get_mut(&ticket.id).ok_or(StateError::Used)?;
        if entry.answer_number != ticket.answer_number {
            return Err(StateError::Used);
        }
        entry.open.accept(responses).map_err(StateError::Malformed)?;
        if !entry.ended && !entry.open.is_empty() {
            entry.answer_number += 1;
            return Ok(AnswerOutcome::Incomplete(UnansweredQuestions {
                answer_number: entry.answer_number,
                deadline: entry.deadline,
                requests: entry.open.requests(),
            }));
        }
        let Some(ParkedEntry { claim, cancel, .. }) = entries.remove(&ticket.id) else {
            return Err(StateError::Used);
        };
        Ok(AnswerOutcome::Complete { claim, cancel })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, ParkedEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ParkedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("answer_number", &self.answer_number).finish_non_exhaustive()
    }
}
