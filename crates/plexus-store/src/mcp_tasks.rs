//! Tasks: calls that continue after their caller received a handle.
//!
//! A row is stored before its handle is returned to the client. It is updated once, when the call ends;
//! progress is known only to the hub that runs it. Therefore a row that is still `working` when that hub
//! starts belongs to a call whose outcome is unknown.

use plexus_kit::clock::from_millis;
use plexus_proto::{CallId, Timestamp};

use crate::{Conn, StoreError};

/// Maximum number of tasks per owner; a new one replaces the one that ended longest ago.
const PER_OWNER: i64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Working,
    /// Has a result, possibly a tool error.
    Completed,
    /// Has a protocol error instead of a result.
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
    /// Subject of the principal; only this owner can use the task.
    pub owner: String,
    pub call_id: CallId,
    pub tool: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Timestamp,
    pub end: Option<TaskEnd>,
}

/// Outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEnd {
    /// Never [`TaskStatus::Working`].
    pub status: TaskStatus,
    /// Human-readable.
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
    /// Stores a task that `hub` runs. Returns false if the owner has reached the limit of running tasks.
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
            "deleting an owner's oldest tasks",
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

    /// Stores how a task ended. Returns false if it had already ended or does not exist; the first outcome is
    /// kept.
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

    /// Ends a hub's tasks that were interrupted by its stop; returns their number.
    pub async fn end_lost_mcp_tasks(
        &mut self,
        hub: &str,
        end: &TaskEnd,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.execute(
            "ending tasks interrupted by a stop of the hub",
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

    /// Deletes expired tasks; returns their number.
    pub async fn purge_mcp_tasks(&mut self, now: Timestamp) -> Result<u64, StoreError> {
        self.execute(
            "purging tasks",
            "DELETE FROM mcp_tasks WHERE expires_at <= $1",
            vec![now.as_millisecond().into()],
        )
        .await
    }
}
