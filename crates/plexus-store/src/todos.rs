//! A session's to-do list.

use plexus_kit::clock::from_millis;
use plexus_proto::{SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conn::Row;
use crate::{Conn, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Done,
}

impl TodoStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "pending" => Ok(Self::Pending),
            "in_progress" => Ok(Self::InProgress),
            "done" => Ok(Self::Done),
            other => Err(StoreError::damaged("todos", format!("status {other:?}"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoRecord {
    /// Counts from 1 within the session; numbers are never reused.
    pub id: i64,
    pub text: String,
    pub status: TodoStatus,
    pub updated_at: Timestamp,
}

fn todo(row: &Row) -> Result<TodoRecord, StoreError> {
    Ok(TodoRecord {
        id: row.int(0)?,
        text: row.text(1)?,
        status: TodoStatus::parse(&row.text(2)?)?,
        updated_at: from_millis(row.int(3)?),
    })
}

impl Conn {
    pub async fn todos(&mut self, session: SessionId) -> Result<Vec<TodoRecord>, StoreError> {
        let rows = self
            .rows(
                "listing to-dos",
                "SELECT id, text, status, updated_at FROM todos WHERE session_id = $1 ORDER BY id",
                vec![session.to_string().into()],
            )
            .await?;
        rows.iter().map(todo).collect()
    }

    pub async fn todo_count(&mut self, session: SessionId) -> Result<i64, StoreError> {
        let row = self
            .row(
                "counting to-dos",
                "SELECT COUNT(*) FROM todos WHERE session_id = $1",
                vec![session.to_string().into()],
            )
            .await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    pub async fn add_todo(
        &mut self,
        session: SessionId,
        text: &str,
        status: TodoStatus,
        now: Timestamp,
    ) -> Result<TodoRecord, StoreError> {
        let counted = self
            .row(
                "numbering a to-do",
                "UPDATE sessions SET last_todo = last_todo + 1 WHERE id = $1 RETURNING last_todo",
                vec![session.to_string().into()],
            )
            .await?;
        let id = counted.ok_or(StoreError::NoSuchSession(session))?.int(0)?;
        self.execute(
            "adding a to-do",
            "INSERT INTO todos (session_id, id, text, status, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $5)",
            vec![
                session.to_string().into(),
                id.into(),
                text.into(),
                status.as_str().into(),
                now.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(TodoRecord { id, text: text.to_owned(), status, updated_at: now })
    }

    /// `None` if there is no such to-do.
    pub async fn update_todo(
        &mut self,
        session: SessionId,
        id: i64,
        text: Option<&str>,
        status: Option<TodoStatus>,
        now: Timestamp,
    ) -> Result<Option<TodoRecord>, StoreError> {
        let row = self
            .row(
                "updating a to-do",
                "UPDATE todos SET text = COALESCE($3, text), status = COALESCE($4, status), updated_at = $5 \
                 WHERE session_id = $1 AND id = $2 RETURNING id, text, status, updated_at",
                vec![
                    session.to_string().into(),
                    id.into(),
                    text.into(),
                    status.map(TodoStatus::as_str).into(),
                    now.as_millisecond().into(),
                ],
            )
            .await?;
        row.as_ref().map(todo).transpose()
    }

    pub async fn remove_todo(&mut self, session: SessionId, id: i64) -> Result<bool, StoreError> {
        let changed = self
            .execute(
                "removing a to-do",
                "DELETE FROM todos WHERE session_id = $1 AND id = $2",
                vec![session.to_string().into(), id.into()],
            )
            .await?;
        Ok(changed > 0)
    }

    pub async fn clear_todos(&mut self, session: SessionId) -> Result<u64, StoreError> {
        self.execute(
            "clearing to-dos",
            "DELETE FROM todos WHERE session_id = $1",
            vec![session.to_string().into()],
        )
        .await
    }
}
