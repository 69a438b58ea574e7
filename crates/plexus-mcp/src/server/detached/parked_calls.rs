//! The calls that wait for an answer, each with what it takes to answer it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_kit::{Quota, QuotaSlot};
use plexus_tools::Unasked;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::Open;
use super::driver::Taker;
use super::seal::Ticket;
use super::{Refusal, Unanswered};
use crate::server::running_call::Round;

/// Calls of one subject that may wait, and of all.
const PER_SUBJECT: usize = 16;
const IN_ALL: usize = 256;

/// Held for a look or a change, never while anything is waited for.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    entries: Mutex<HashMap<u64, Entry>>,
    places: Quota,
}

pub(super) struct Entry {
    /// Which answer it waits for.
    pub(super) once: u64,
    pub(super) open: Open,
    /// It is over, whatever is answered.
    pub(super) ended: bool,
    pub(super) until: Instant,
    pub(super) cancel: CancellationToken,
    /// Where the driver is told whom to give the call to.
    pub(super) hand: Hand,
    pub(super) _place: QuotaSlot,
}

pub(super) type Hand = oneshot::Sender<Taker>;

/// What answers have brought about.
pub(super) enum Answered {
    /// Some are missing.
    Again(Unanswered),
    /// It is nobody's now, and goes on.
    Whole { hand: Hand, cancel: CancellationToken },
}

impl Default for ParkedCalls {
    fn default() -> Self {
        Self { entries: Mutex::default(), places: Quota::new(PER_SUBJECT) }
    }
}

impl ParkedCalls {
    /// The right to let a call wait.
    pub(super) fn enter(&self, owner: &str) -> Result<QuotaSlot, Unasked> {
        const MINE: &str =
            "as many calls wait for an answer as may at a time: answer one of the open questions first";
        const ALL: &str = "as many calls wait for answers as the hub lets wait; try again in a while";
        if self.places.total() >= IN_ALL {
            return Err(Unasked::TooMany(ALL));
        }
        self.places.enter(owner).ok_or(Unasked::TooMany(MINE))
    }

    pub(super) fn insert(&self, id: u64, entry: Entry) {
        self.entries().insert(id, entry);
    }

    pub(super) fn remove(&self, id: u64) -> Option<Entry> {
        self.entries().remove(&id)
    }

    pub(super) fn count(&self) -> usize {
        self.entries().len()
    }

    /// One more round of questions of a call that waits. It comes back if the call does not wait any more.
    pub(super) fn asked(&self, id: u64, round: Round, until: Instant) -> Option<Round> {
        match self.entries().get_mut(&id) {
            Some(entry) => {
                entry.until = until;
                entry.open.add(round);
                None
            }
            None => Some(round),
        }
    }

    pub(super) fn ended(&self, id: u64) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.ended = true;
        }
    }

    /// Takes answers for whom they are from.
    pub(super) fn answer(&self, ticket: &Ticket, responses: Option<&RawValue>) -> Result<Answered, Refusal> {
        let mut entries = self.entries();
        // One that was answered, or given up, is gone.
        let entry = entries.get_mut(&ticket.id).ok_or(Refusal::Used)?;
        if entry.once != ticket.once {
            return Err(Refusal::Used);
        }
        entry.open.give(responses).map_err(Refusal::Malformed)?;
        if !entry.ended && !entry.open.is_empty() {
            entry.once += 1;
            let again = Unanswered { once: entry.once, until: entry.until, requests: entry.open.requests() };
            return Ok(Answered::Again(again));
        }
        let Some(Entry { hand, cancel, .. }) = entries.remove(&ticket.id) else { return Err(Refusal::Used) };
        Ok(Answered::Whole { hand, cancel })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("once", &self.once).finish_non_exhaustive()
    }
}
