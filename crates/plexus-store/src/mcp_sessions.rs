//! Session-era MCP sessions, so that clients keep their session across restarts of the hub.

use plexus_proto::Timestamp;

use crate::{Conn, StoreError};

/// Maximum number of sessions per owner; a new one replaces the oldest.
const PER_OWNER: i64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSessionRecord {
    pub id: String,
    /// Subject of the principal; only this owner can use the session.
    pub owner: String,
    /// Negotiated protocol revision.
    pub version: String,
    /// Name reported by the client.
    pub client: String,
    /// Client capabilities as reported by the client: JSON.
    pub capabilities: String,
    /// Minimum log level requested by the client.
    pub log_level: Option<String>,
}

impl Conn {
    pub async fn insert_mcp_session(
        &mut self,
        record: &McpSessionRecord,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "storing an MCP session",
            "INSERT INTO mcp_sessions (id, owner, version, client, capabilities, log_level, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            vec![
                record.id.as_str().into(),
                record.owner.as_str().into(),
                record.version.as_str().into(),
                record.client.as_str().into(),
                record.capabilities.as_str().into(),
                record.log_level.clone().into(),
                now.as_millisecond().into(),
            ],
        )
        .await?;
        self.execute(
            "deleting an owner's oldest MCP sessions",
            "DELETE FROM mcp_sessions WHERE owner = $1 AND id NOT IN \
             (SELECT id FROM mcp_sessions WHERE owner = $1 ORDER BY created_at DESC, id LIMIT $2)",
            vec![record.owner.as_str().into(), PER_OWNER.into()],
        )
        .await?;
        Ok(())
    }

    pub async fn mcp_session(&mut self, id: &str) -> Result<Option<McpSessionRecord>, StoreError> {
        let row = self
            .row(
                "reading an MCP session",
                "SELECT owner, version, client, capabilities, log_level FROM mcp_sessions WHERE id = $1",
                vec![id.into()],
            )
            .await?;
        row.map(|row| {
            Ok(McpSessionRecord {
                id: id.to_owned(),
                owner: row.text(0)?,
                version: row.text(1)?,
                client: row.text(2)?,
                capabilities: row.text(3)?,
                log_level: row.opt_text(4)?,
            })
        })
        .transpose()
    }

    pub async fn set_mcp_session_log_level(&mut self, id: &str, level: &str) -> Result<(), StoreError> {
        self.execute(
            "storing the log level of an MCP session",
            "UPDATE mcp_sessions SET log_level = $2 WHERE id = $1",
            vec![id.into(), level.into()],
        )
        .await?;
        Ok(())
    }

    pub async fn delete_mcp_session(&mut self, id: &str) -> Result<(), StoreError> {
        self.execute("ending an MCP session", "DELETE FROM mcp_sessions WHERE id = $1", vec![id.into()])
            .await?;
        Ok(())
    }

    /// Deletes sessions opened before `before`; returns their number.
    pub async fn purge_mcp_sessions(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        self.execute(
            "purging MCP sessions",
            "DELETE FROM mcp_sessions WHERE created_at < $1",
            vec![before.as_millisecond().into()],
        )
        .await
    }
}
