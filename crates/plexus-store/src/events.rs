//! Session events: append with a database-assigned `seq`, read from a `seq`.

use std::collections::{HashMap, HashSet};

use plexus_kit::clock::from_millis;
use plexus_proto::{Event, NewEvent, SessionId};

use crate::conn::{Sql, Value, chunk_sizes, placeholders};
use crate::{Conn, StoreError};

const COLUMNS: usize = 7;

impl Conn {
    /// Events of a session after `after`, oldest first.
    pub async fn events(
        &mut self,
        session: SessionId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let rows = self
            .rows(
                "reading events",
                "SELECT seq, at, kind, actor, payload, external_id FROM session_events \
                 WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                vec![session.to_string().into(), after.into(), limit.into()],
            )
            .await?;
        rows.iter()
            .map(|row| {
                let Ok(kind) = row.text(2)?.parse();
                Ok(Event {
                    session_id: session,
                    seq: row.int(0)?,
                    at: from_millis(row.int(1)?),
                    kind,
                    actor: row.text(3)?,
                    payload: serde_json::from_str(&row.text(4)?)
                        .map_err(|e| StoreError::damaged("session_events", e))?,
                    external_id: row.opt_text(5)?,
                })
            })
            .collect()
    }

    /// Which of the events are new: not stored before and not twice in this batch.
    pub(crate) async fn without_known_external_ids(
        &mut self,
        events: &[(SessionId, NewEvent)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut seen = HashSet::new();
        let mut fresh = Vec::with_capacity(events.len());
        for (session, event) in events {
            let Some(external_id) = &event.external_id else {
                fresh.push(true);
                continue;
            };
            let known = !seen.insert((*session, external_id.as_str()))
                || self
                    .row(
                        "looking up an external id",
                        "SELECT seq FROM session_events WHERE session_id = $1 AND external_id = $2",
                        vec![session.to_string().into(), external_id.as_str().into()],
                    )
                    .await?
                    .is_some();
            fresh.push(!known);
        }
        Ok(fresh)
    }

    /// Moves each session's counter on by its number of events, and its last change to the newest;
    /// returns the first free `seq` of each. A session that does not exist is left out.
    pub(crate) async fn reserve_seqs(
        &mut self,
        counts: HashMap<SessionId, (i64, i64)>,
    ) -> Result<HashMap<SessionId, i64>, StoreError> {
        let mut first = HashMap::with_capacity(counts.len());
        let mut counts_left = counts.iter();
        for size in chunk_sizes(counts.len()) {
            let mut values = Vec::with_capacity(size * 3);
            for (session, (count, at)) in counts_left.by_ref().take(size) {
                values.extend([session.to_string().into(), (*count).into(), (*at).into()]);
            }
            let sql = format!(
                "WITH added (id, n, at) AS (VALUES {}) \
                 UPDATE sessions SET last_seq = last_seq + added.n, \
                        updated_at = CASE WHEN added.at > updated_at THEN added.at ELSE updated_at END \
                 FROM added WHERE sessions.id = added.id RETURNING sessions.id, last_seq",
                placeholders(size, 3)
            );
            for row in self.rows("numbering events", Sql::Built(sql), values).await? {
                let id: SessionId = row.text(0)?.parse().map_err(|e| StoreError::damaged("sessions", e))?;
                let count = counts.get(&id).map_or(0, |(count, _)| *count);
                first.insert(id, row.int(1)? - count + 1);
            }
        }
        Ok(first)
    }

    pub(crate) async fn insert_events(
        &mut self,
        events: Vec<(SessionId, i64, NewEvent)>,
    ) -> Result<(), StoreError> {
        let total = events.len();
        let mut events = events.into_iter();
        for size in chunk_sizes(total) {
            let mut values: Vec<Value> = Vec::with_capacity(size * COLUMNS);
            for (session, seq, event) in events.by_ref().take(size) {
                values.extend([
                    session.to_string().into(),
                    seq.into(),
                    event.at.as_millisecond().into(),
                    event.kind.as_str().into(),
                    event.actor.into(),
                    event.payload.into(),
                    event.external_id.into(),
                ]);
            }
            let sql = format!(
                "INSERT INTO session_events (session_id, seq, at, kind, actor, payload, external_id) VALUES {}",
                placeholders(size, COLUMNS)
            );
            self.execute("appending events", Sql::Built(sql), values).await?;
        }
        Ok(())
    }
}
