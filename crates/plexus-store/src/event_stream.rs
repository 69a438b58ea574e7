//! Events in the order of all sessions, for streaming: with the owner of their session, and with the payload
//! as stored text, because streams do not parse it.

use plexus_kit::clock::from_millis;
use plexus_proto::{EventKind, SessionId, Timestamp};

use crate::conn::{Row, Sql};
use crate::{Conn, StoreError};

/// Columns of a [`StoredEvent`], in the order of [`stored`].
const READ: &str = "SELECT e.session_id, e.seq, e.pos, e.at, e.kind, e.actor, e.payload, e.external_id, s.owner \
                    FROM session_events e JOIN sessions s ON s.id = e.session_id";

/// An event as stored, with its session's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub session_id: SessionId,
    pub seq: i64,
    pub pos: i64,
    pub at: Timestamp,
    pub kind: EventKind,
    pub actor: String,
    /// JSON text.
    pub payload: String,
    pub external_id: Option<String>,
    /// Subject that owns the session.
    pub owner: String,
}

fn stored(row: &Row) -> Result<StoredEvent, StoreError> {
    let Ok(kind) = row.text(4)?.parse();
    Ok(StoredEvent {
        session_id: row.text(0)?.parse().map_err(|e| StoreError::damaged("session_events", e))?,
        seq: row.int(1)?,
        pos: row.int(2)?,
        at: from_millis(row.int(3)?),
        kind,
        actor: row.text(5)?,
        payload: row.text(6)?,
        external_id: row.opt_text(7)?,
        owner: row.text(8)?,
    })
}

impl Conn {
    /// Events of all sessions after position `after`, oldest first.
    ///
    /// Positions are committed in order: after one was read, no smaller one can appear.
    pub async fn events_after(&mut self, after: i64, limit: i64) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = format!("{READ} WHERE e.pos > $1 ORDER BY e.pos LIMIT $2");
        let rows = self.rows("reading events", Sql::Built(sql), vec![after.into(), limit.into()]).await?;
        rows.iter().map(stored).collect()
    }

    /// Events of one session after number `after`, oldest first.
    pub async fn session_events_after(
        &mut self,
        session: SessionId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = format!("{READ} WHERE e.session_id = $1 AND e.seq > $2 ORDER BY e.seq LIMIT $3");
        let values = vec![session.to_string().into(), after.into(), limit.into()];
        let rows = self.rows("reading events", Sql::Built(sql), values).await?;
        rows.iter().map(stored).collect()
    }

    /// Position of the newest event of all sessions, stored or pruned; 0 if there never was one.
    pub async fn newest_event(&mut self) -> Result<i64, StoreError> {
        let sql = "SELECT value FROM meta WHERE key = 'event_pos'";
        let row = self.row("reading the newest event", sql, vec![]).await?;
        row.map_or(Ok(0), |row| row.int(0))
    }
}
