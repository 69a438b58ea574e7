//! Calls that go on after their caller was given a handle: how each began, and what became of it.
//!
//! A row is there before its handle is told to anybody. It is changed once, when the call has ended; what happens
//! meanwhile is known to the hub that runs it. So a row that still says `working` when that hub starts is of a call
//! whose end nobody saw.

use plexus_kit::clock::from_millis;
use plexus_proto::{CallId, Timestamp};

use crate::{Conn, StoreError};

/// Tasks that one owner may have; a new one takes the place of the one that ended longest ago.
const PER_OWNER: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Working,
    /// It has a result, also one that tells of an error of the tool.
    Completed,
    /// It has an error of the protocol instead of a result.
    Failed,
    Cancelled,
}

impl TaskStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        [Self::Working, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| StoreError::damaged("mcp_tasks", format!("status {text:?}")))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRecord {
    pub id: String,
    /// Subject of the principal; a task answers to nobody else.
    pub owner: String,
    pub call_id: CallId,
    pub tool: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Timestamp,
    pub end: Option<TaskEnd>,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEnd {
    /// Anything but [`TaskStatus::Working`].
    pub status: TaskStatus,
    /// For people.
    pub message: Option<String>,
    /// JSON: the members of the result, or the error.
    pub payload: Option<String>,
}

impl TaskRecord {
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.end.as_ref().map_or(TaskStatus::Working, |end| end.status)
    }
}

impl Conn {
    /// Stores a task that `hub` runs. False: its owner has as many running ones as it may have.
    pub async fn insert_mcp_task(&mut self, hub: &str, task: &TaskRecord) -> Result<bool, StoreError> {
        let running = self
            .row(
                "counting the running tasks of an owner",
                "SELECT COUNT(*) FROM mcp_tasks WHERE owner = $1 AND status = 'working'",
                vec![task.owner.as_str().into()],
            )
            .await?;
        if running.map_or(Ok(0), |row| row.int(0))? >= PER_OWNER {
            return Ok(false);
        }
        self.execute(
            "storing a task",
            "INSERT INTO mcp_tasks (id, owner, hub, call_id, tool, status, created_at, updated_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, 'working', $6, $7, $8)",
            vec![
                task.id.as_str().into(),
                task.owner.as_str().into(),
                hub.into(),
                task.call_id.to_string().into(),
                task.tool.as_str().into(),
                task.created_at.as_millisecond().into(),
                task.updated_at.as_millisecond().into(),
                task.expires_at.as_millisecond().into(),
            ],
        )
        .await?;
        self.execute(
            "forgetting an owner's oldest tasks",
            "DELETE FROM mcp_tasks WHERE owner = $1 AND status <> 'working' AND id NOT IN \
             (SELECT id FROM mcp_tasks WHERE owner = $1 \
             ORDER BY (status = 'working') DESC, updated_at DESC, id LIMIT $2)",
            vec![task.owner.as_str().into(), PER_OWNER.into()],
        )
        .await?;
        Ok(true)
    }

    /// A task of this owner that has not expired.
    pub async fn mcp_task(
        &mut self,
        owner: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<TaskRecord>, StoreError> {
        let row = self
            .row(
                "reading a task",
                "SELECT call_id, tool, status, status_message, payload, created_at, updated_at, expires_at \
                 FROM mcp_tasks WHERE id = $1 AND owner = $2 AND expires_at > $3",
                vec![id.into(), owner.into(), now.as_millisecond().into()],
            )
            .await?;
        row.map(|row| {
            let status = TaskStatus::parse(&row.text(2)?)?;
            let end = TaskEnd { status, message: row.opt_text(3)?, payload: row.opt_text(4)? };
            Ok(TaskRecord {
                id: id.to_owned(),
                owner: owner.to_owned(),
                call_id: row.text(0)?.parse().map_err(|e| StoreError::damaged("mcp_tasks", e))?,
                tool: row.text(1)?,
                created_at: from_millis(row.int(5)?),
                updated_at: from_millis(row.int(6)?),
                expires_at: from_millis(row.int(7)?),
                end: (status != TaskStatus::Working).then_some(end),
            })
        })
        .transpose()
    }

    /// Stores how a task ended. False when it had ended before, or is gone: the first end stays.
    pub async fn end_mcp_task(
        &mut self,
        id: &str,
        end: &TaskEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let ended = self
            .execute(
                "ending a task",
                "UPDATE mcp_tasks SET status = $2, status_message = $3, payload = $4, updated_at = $5 \
                 WHERE id = $1 AND status = 'working'",
                vec![
                    id.into(),
                    end.status.as_str().into(),
                    end.message.clone().into(),
                    end.payload.clone().into(),
                    now.as_millisecond().into(),
                ],
            )
            .await?;
        Ok(ended == 1)
    }

    /// Gives the tasks of a hub that nobody runs any more an end; returns how many.
    pub async fn end_lost_mcp_tasks(
        &mut self,
        hub: &str,
        end: &TaskEnd,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.execute(
            "ending the tasks that a stop of the hub left",
            "UPDATE mcp_tasks SET status = $2, status_message = $3, payload = $4, updated_at = $5 \
             WHERE hub = $1 AND status = 'working'",
            vec![
                hub.into(),
                end.status.as_str().into(),
                end.message.clone().into(),
                end.payload.clone().into(),
                now.as_millisecond().into(),
            ],
        )
        .await
    }

    /// Forgets tasks that have expired; returns how many.
    pub async fn purge_mcp_tasks(&mut self, now: Timestamp) -> Result<u64, StoreError> {
        self.execute(
            "purging tasks",
            "DELETE FROM mcp_tasks WHERE expires_at <= $1",
            vec![now.as_millisecond().into()],
        )
        .await
    }
}
