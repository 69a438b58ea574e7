//! Appends to a session on behalf of a client: all events or none, with an optional condition.
//!
//! Unlike the records of a call, which the writer appends at the end of its transaction, these events are
//! part of a unit of work. Therefore the condition is checked against the log at the time of writing,
//! including writes of the same transaction and, on a shared database, of other hubs.

use std::collections::HashMap;

use plexus_proto::{Event, NewEvent, SessionId};

use crate::events::append_statements;
use crate::{Conn, StoreError};

/// Result of an append.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// As stored, in the order of the request.
    pub events: Vec<Event>,
    /// Number of the session's newest event.
    pub last_seq: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The session has newer events; nothing was appended.
    #[error("the session is at event {last_seq}")]
    Conflict { last_seq: i64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Conn {
    /// Appends events to a session that must exist and, if `expected_seq` is given, be at that event.
    ///
    /// Events whose external id already exists are not appended but returned as stored. If that applies to
    /// all of them, the request is a repetition and the condition is not checked, so that a client that
    /// missed the answer can retry.
    pub async fn append_events(
        &mut self,
        session: SessionId,
        expected_seq: Option<i64>,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        let last_seq = self.lock_session(session).await?;
        let mut slots = Vec::with_capacity(events.len());
        let mut fresh: Vec<NewEvent> = Vec::with_capacity(events.len());
        let mut fresh_ids: HashMap<String, usize> = HashMap::new();
        for event in events {
            let known = match &event.external_id {
                None => None,
                Some(id) => match fresh_ids.get(id) {
                    Some(index) => Some(EventSlot::Fresh(*index)),
                    None => {
                        self.event_by_external_id(session, id).await?.map(|e| EventSlot::Stored(Box::new(e)))
                    }
                },
            };
            slots.push(known.unwrap_or_else(|| {
                fresh_ids.extend(event.external_id.clone().map(|id| (id, fresh.len())));
                fresh.push(event);
                EventSlot::Fresh(fresh.len() - 1)
            }));
        }
        if !fresh.is_empty() && expected_seq.is_some_and(|expected| expected != last_seq) {
            return Err(AppendError::Conflict { last_seq });
        }
        let added = i64::try_from(fresh.len()).unwrap_or(i64::MAX);
        let statements =
            append_statements(fresh.into_iter().map(|event| (session, event)).collect(), self.0.rows_as());
        if !statements.is_empty() {
            self.script("appending events", statements).await?;
        }
        let written = self.events(session, last_seq, added).await?;
        let events = slots.into_iter().filter_map(|slot| match slot {
            EventSlot::Fresh(index) => written.get(index).cloned(),
            EventSlot::Stored(event) => Some(*event),
        });
        Ok(Appended { events: events.collect(), last_seq: last_seq + added })
    }

    /// Number of the session's newest event, locked until the transaction ends. Locks the common counter
    /// first, in the same order as all appends.
    async fn lock_session(&mut self, session: SessionId) -> Result<i64, StoreError> {
        self.execute(
            "locking the event counter",
            "UPDATE meta SET value = value WHERE key = 'event_pos'",
            vec![],
        )
        .await?;
        let row = self
            .row(
                "locking a session",
                "UPDATE sessions SET last_seq = last_seq WHERE id = $1 RETURNING last_seq",
                vec![session.to_string().into()],
            )
            .await?;
        row.map_or(Err(StoreError::NoSuchSession(session)), |row| row.int(0))
    }
}

/// Origin of an event in the answer.
enum EventSlot {
    Stored(Box<Event>),
    /// Index among the newly appended events.
    Fresh(usize),
}
