//! Session events: appended with a database-assigned `seq`, read from a `seq`.

use std::collections::{HashMap, HashSet};

use plexus_kit::clock::from_millis;
use plexus_proto::{Event, NewEvent, SessionId};

use crate::conn::{Row, Sql, Statement, Value, chunk_sizes, padded_statements, placeholders};
use crate::dialect::RowsAs;
use crate::{Conn, StoreError};

const COLUMNS: usize = 8;
/// Columns of an event, in the order of [`event`].
const READ: &str = "session_id, seq, pos, at, kind, actor, payload, external_id";

fn event(row: &Row) -> Result<Event, StoreError> {
    let damaged = |e: &dyn std::fmt::Display| StoreError::damaged("session_events", e);
    let Ok(kind) = row.text(4)?.parse();
    Ok(Event {
        session_id: row.text(0)?.parse().map_err(|e: plexus_proto::InvalidId| damaged(&e))?,
        seq: row.int(1)?,
        pos: row.int(2)?,
        at: from_millis(row.int(3)?),
        kind,
        actor: row.text(5)?,
        payload: serde_json::from_str(&row.text(6)?).map_err(|e| damaged(&e))?,
        external_id: row.opt_text(7)?,
    })
}

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
                Sql::Built(format!(
                    "SELECT {READ} FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
                )),
                vec![session.to_string().into(), after.into(), limit.into()],
            )
            .await?;
        rows.iter().map(event).collect()
    }

    /// As [`Self::events`], for one kind.
    pub async fn events_of_kind(
        &mut self,
        session: SessionId,
        kind: &str,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let rows = self
            .rows(
                "reading events of a kind",
                Sql::Built(format!(
                    "SELECT {READ} FROM session_events WHERE session_id = $1 AND seq > $2 AND kind = $3 \
                     ORDER BY seq LIMIT $4"
                )),
                vec![session.to_string().into(), after.into(), kind.into(), limit.into()],
            )
            .await?;
        rows.iter().map(event).collect()
    }

    /// The session's event with this external id.
    pub(crate) async fn event_by_external_id(
        &mut self,
        session: SessionId,
        external_id: &str,
    ) -> Result<Option<Event>, StoreError> {
        let row = self
            .row(
                "looking up an external id",
                Sql::Built(format!(
                    "SELECT {READ} FROM session_events WHERE session_id = $1 AND external_id = $2"
                )),
                vec![session.to_string().into(), external_id.into()],
            )
            .await?;
        row.as_ref().map(event).transpose()
    }

    /// Marks the events that are new: not stored yet, and not duplicated in this batch.
    pub(crate) async fn without_known_external_ids(
        &mut self,
        events: &[(SessionId, NewEvent)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut seen_ids = HashSet::new();
        let mut fresh = Vec::with_capacity(events.len());
        for (session, event) in events {
            let Some(external_id) = &event.external_id else {
                fresh.push(true);
                continue;
            };
            let known = !seen_ids.insert((*session, external_id.as_str()))
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

    /// The subset of sessions that exist.
    pub(crate) async fn existing_sessions(
        &mut self,
        sessions: &[SessionId],
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut existing = Vec::with_capacity(sessions.len());
        for session in sessions {
            if self.session(*session).await?.is_some() {
                existing.push(*session);
            }
        }
        Ok(existing)
    }
}

/// Statements that append the events, keeping the order within each session.
///
/// First, the counter of all events and those of the sessions are increased by the number of events. Then
/// each event derives its two numbers by counting back from there. No other writer can interfere: the
/// transaction holds the counter rows, the common one first, so that transactions cannot deadlock and
/// positions are committed in order.
pub(crate) fn append_statements(events: Vec<(SessionId, NewEvent)>, rows: RowsAs) -> Vec<Statement> {
    let mut counts: HashMap<SessionId, (i64, i64)> = HashMap::new();
    for (session, event) in &events {
        let (count, newest) = counts.entry(*session).or_insert((0, i64::MIN));
        *count += 1;
        *newest = event.at.as_millisecond().max(*newest);
    }
    if events.is_empty() {
        return vec![];
    }
    let total = events.len();
    let mut statements = vec![Statement {
        sql: "UPDATE meta SET value = value + $1 WHERE key = 'event_pos'".into(),
        values: vec![count(total).into()],
    }];
    let touched = counts.iter().flat_map(|(session, (count, newest))| {
        [session.to_string().into(), (*count).into(), (*newest).into()]
    });
    let touched: Vec<Value> = touched.collect();
    let values = numbered(events, &mut counts);
    match rows {
        RowsAs::Padded => {
            statements.extend(padded_statements(TOUCH_PADDED, touched, 3));
            statements.extend(padded_statements(APPEND_PADDED, values, COLUMNS));
        }
        RowsAs::Placeholders => {
            statements.extend(touch_statements(touched));
            statements.extend(insert_statements(values));
        }
    }
    statements
}

/// The values of all rows, each with the number of later events in its session and in total.
fn numbered(events: Vec<(SessionId, NewEvent)>, counts: &mut HashMap<SessionId, (i64, i64)>) -> Vec<Value> {
    let mut later = count(events.len());
    let mut values: Vec<Value> = Vec::with_capacity(events.len() * COLUMNS);
    for (session, event) in events {
        let remaining = counts.get_mut(&session).map_or(0, |(remaining, _)| {
            *remaining -= 1;
            *remaining
        });
        later -= 1;
        values.extend([
            session.to_string().into(),
            remaining.into(),
            later.into(),
            event.at.as_millisecond().into(),
            event.kind.as_str().into(),
            event.actor.into(),
            event.payload.into(),
            event.external_id.into(),
        ]);
    }
    values
}

/// SQLite: one row per session, with its id, number of new events, and time of the newest.
const TOUCH_PADDED: &str = "UPDATE sessions SET last_seq = last_seq + added.column2, \
    updated_at = MAX(updated_at, added.column3) FROM (VALUES {rows}) added WHERE sessions.id = added.column1";

/// SQLite: the rows of [`numbered`].
const APPEND_PADDED: &str = "INSERT INTO session_events (session_id, seq, pos, at, kind, actor, payload, external_id) \
    SELECT column1, (SELECT last_seq FROM sessions WHERE id = column1) - column2, \
    (SELECT value FROM meta WHERE key = 'event_pos') - column3, column4, column5, column6, column7, column8 \
    FROM (VALUES {rows}) WHERE column1 IS NOT NULL";

fn touch_statements(values: Vec<Value>) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut values_left = values.into_iter();
    for size in chunk_sizes(values_left.len() / 3) {
        let values = values_left.by_ref().take(size * 3).collect();
        let sql = format!(
            "WITH added (id, n, at) AS (VALUES {}) \
             UPDATE sessions SET last_seq = last_seq + added.n, \
                    updated_at = CASE WHEN added.at > updated_at THEN added.at ELSE updated_at END \
             FROM added WHERE sessions.id = added.id",
            placeholders(size, 3)
        );
        statements.push(Statement { sql: Sql::Built(sql), values });
    }
    statements
}

fn insert_statements(values: Vec<Value>) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut values_left = values.into_iter();
    for size in chunk_sizes(values_left.len() / COLUMNS) {
        let values = values_left.by_ref().take(size * COLUMNS).collect();
        let rows: Vec<String> = (0..size).map(|row| numbered_row(row * COLUMNS)).collect();
        let sql = format!(
            "INSERT INTO session_events (session_id, seq, pos, at, kind, actor, payload, external_id) VALUES {}",
            rows.join(",")
        );
        statements.push(Statement { sql: Sql::Built(sql), values });
    }
    statements
}

fn count(events: usize) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX)
}

/// Placeholders of one event, whose second and third values are the numbers of later events in its session
/// and in total.
fn numbered_row(before: usize) -> String {
    let at = |column: usize| before + column;
    format!(
        "(${session}, (SELECT last_seq FROM sessions WHERE id = ${session}) - ${}, \
         (SELECT value FROM meta WHERE key = 'event_pos') - ${}, ${}, ${}, ${}, ${}, ${})",
        at(2),
        at(3),
        at(4),
        at(5),
        at(6),
        at(7),
        at(8),
        session = at(1),
    )
}
