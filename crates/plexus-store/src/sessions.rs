//! Sessions: one row per client conversation, identified by owner and key.

use plexus_kit::clock::from_millis;
use plexus_proto::api::Session;
use plexus_proto::{SessionId, Timestamp};

use crate::conn::{Row, Sql};
use crate::{Conn, StoreError};

/// Maximum length of a title in characters.
const TITLE: usize = 120;

/// Filter for listing sessions; unset fields match everything.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    pub owner: Option<String>,
    /// Prefix of the key.
    pub key_prefix: Option<String>,
    pub client: Option<String>,
    pub updated_after: Option<Timestamp>,
    /// Only the session whose id ends with this.
    pub id_suffix: Option<String>,
    /// The last id of the previous page.
    pub before: Option<SessionId>,
}

fn session(row: &Row) -> Result<Session, StoreError> {
    Ok(Session {
        id: row.text(0)?.parse().map_err(|e| StoreError::damaged("sessions", e))?,
        owner: row.text(1)?,
        key: row.text(2)?,
        client: row.opt_text(3)?,
        created_at: from_millis(row.int(4)?),
        updated_at: from_millis(row.int(5)?),
        last_seq: row.int(6)?,
        folder: row.opt_text(7)?,
        title: row.opt_text(8)?,
    })
}

/// Reads sessions. The title of a session that was given a name is that name, otherwise the first entry of its todo list.
fn select(rest: &str) -> Sql {
    Sql::Built(format!(
        "SELECT id, owner, key, client, created_at, updated_at, last_seq, folder, \
           CASE WHEN substr(key, 1, 6) = 'named:' THEN substr(key, 7) ELSE \
             (SELECT substr(text, 1, {TITLE}) FROM todos WHERE todos.session_id = sessions.id \
              ORDER BY todos.id LIMIT 1) END \
         FROM sessions {rest}"
    ))
}

impl Conn {
    /// The session with this owner and key, created if it does not exist.
    pub async fn ensure_session(
        &mut self,
        owner: &str,
        key: &str,
        client: Option<&str>,
        now: Timestamp,
    ) -> Result<SessionId, StoreError> {
        self.ensure_session_as(SessionId::new(), owner, key, client, now).await
    }

    /// As [`Self::ensure_session`]; returns the session, and whether it was created.
    pub async fn open_session(
        &mut self,
        owner: &str,
        key: &str,
        client: Option<&str>,
        now: Timestamp,
    ) -> Result<(Session, bool), StoreError> {
        let fresh = SessionId::new();
        let id = self.ensure_session_as(fresh, owner, key, client, now).await?;
        let session = self.session(id).await?.ok_or(StoreError::NoSuchSession(id))?;
        Ok((session, id == fresh))
    }

    async fn ensure_session_as(
        &mut self,
        fresh: SessionId,
        owner: &str,
        key: &str,
        client: Option<&str>,
        now: Timestamp,
    ) -> Result<SessionId, StoreError> {
        let now = now.as_millisecond();
        let row = self
            .row(
                "opening a session",
                "INSERT INTO sessions (id, owner, key, client, created_at, updated_at, last_seq) \
                 VALUES ($1, $2, $3, $4, $5, $5, 0) \
                 ON CONFLICT (owner, key) DO UPDATE SET client = COALESCE(sessions.client, excluded.client) \
                 RETURNING id",
                vec![fresh.to_string().into(), owner.into(), key.into(), client.into(), now.into()],
            )
            .await?;
        let id = row.map(|row| row.text(0)).transpose()?.unwrap_or_default();
        id.parse().map_err(|e| StoreError::damaged("sessions", e))
    }

    /// Notes the folder in which the client of a session works. The latest one counts.
    pub async fn note_session_folder(&mut self, id: SessionId, folder: &str) -> Result<(), StoreError> {
        self.execute(
            "noting the folder of a session",
            "UPDATE sessions SET folder = $2 WHERE id = $1",
            vec![id.to_string().into(), folder.into()],
        )
        .await
        .map(drop)
    }

    pub async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let row = self.row("reading a session", select("WHERE id = $1"), vec![id.to_string().into()]).await?;
        row.as_ref().map(session).transpose()
    }

    pub async fn session_by_key(&mut self, owner: &str, key: &str) -> Result<Option<Session>, StoreError> {
        let row = self
            .row("reading a session", select("WHERE owner = $1 AND key = $2"), vec![owner.into(), key.into()])
            .await?;
        row.as_ref().map(session).transpose()
    }

    /// Newest first.
    pub async fn sessions(&mut self, filter: &SessionFilter, limit: i64) -> Result<Vec<Session>, StoreError> {
        let rows = self
            .rows(
                "listing sessions",
                select(
                    "WHERE ($1 IS NULL OR owner = $1) AND ($2 IS NULL OR id < $2) \
                     AND ($3 IS NULL OR substr(key, 1, length($3)) = $3) AND ($4 IS NULL OR client = $4) \
                     AND ($5 IS NULL OR updated_at > $5) AND ($6 IS NULL OR substr(id, 37 - length($6)) = $6) \
                     ORDER BY id DESC LIMIT $7",
                ),
                vec![
                    filter.owner.as_deref().into(),
                    filter.before.map(|id| id.to_string()).into(),
                    filter.key_prefix.as_deref().into(),
                    filter.client.as_deref().into(),
                    filter.updated_after.map(Timestamp::as_millisecond).into(),
                    filter.id_suffix.as_deref().into(),
                    limit.into(),
                ],
            )
            .await?;
        rows.iter().map(session).collect()
    }
}
