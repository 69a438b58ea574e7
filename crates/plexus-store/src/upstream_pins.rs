//! Pinned tool definitions of upstream servers: the decisions about which definitions models may read.
//!
//! One row per tool of a server. A server without rows was never seen before.

use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;

use crate::conn::Row;
use crate::{Conn, StoreError};

/// Decision about a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinState {
    /// A tool with exactly this definition is listed.
    Approved,
    /// Present when the server was first seen, but not trusted.
    Held,
}

impl PinState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Held => "held",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "approved" => Ok(Self::Approved),
            "held" => Ok(Self::Held),
            other => Err(StoreError::damaged("upstream_pins", format!("state {other:?}"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinRecord {
    /// The server's own name for the tool.
    pub tool: String,
    /// Hash of the definition, in hexadecimal.
    pub hash: String,
    /// JSON.
    pub definition: String,
    pub state: PinState,
    /// The person that approved it, or the rule.
    pub decided_by: String,
    pub decided_at: Timestamp,
}

fn pin(row: &Row) -> Result<PinRecord, StoreError> {
    Ok(PinRecord {
        tool: row.text(0)?,
        hash: row.text(1)?,
        definition: row.text(2)?,
        state: PinState::parse(&row.text(3)?)?,
        decided_by: row.text(4)?,
        decided_at: from_millis(row.int(5)?),
    })
}

impl Conn {
    /// All pins of a server, by tool name.
    pub async fn upstream_pins(&mut self, server: &str) -> Result<Vec<PinRecord>, StoreError> {
        let rows = self
            .rows(
                "reading the pins of a server",
                "SELECT tool, hash, definition, state, decided_by, decided_at FROM upstream_pins \
                 WHERE server = $1 ORDER BY tool",
                vec![server.into()],
            )
            .await?;
        rows.iter().map(pin).collect()
    }

    /// Stores the decision about a tool, replacing an earlier one.
    pub async fn set_upstream_pin(&mut self, server: &str, pin: &PinRecord) -> Result<(), StoreError> {
        self.execute(
            "pinning a tool of a server",
            "INSERT INTO upstream_pins (server, tool, hash, definition, state, decided_by, decided_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (server, tool) DO UPDATE SET hash = excluded.hash, definition = excluded.definition, \
             state = excluded.state, decided_by = excluded.decided_by, decided_at = excluded.decided_at",
            vec![
                server.into(),
                pin.tool.as_str().into(),
                pin.hash.as_str().into(),
                pin.definition.as_str().into(),
                pin.state.as_str().into(),
                pin.decided_by.as_str().into(),
                pin.decided_at.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(())
    }

    /// Deletes the pin of one tool.
    pub async fn delete_upstream_pin(&mut self, server: &str, tool: &str) -> Result<(), StoreError> {
        self.execute(
            "deleting a pin of a server",
            "DELETE FROM upstream_pins WHERE server = $1 AND tool = $2",
            vec![server.into(), tool.into()],
        )
        .await?;
        Ok(())
    }

    /// Deletes all pins of a server, so that its next connection counts as the first; returns their number.
    pub async fn delete_upstream_pins(&mut self, server: &str) -> Result<u64, StoreError> {
        self.execute(
            "deleting the pins of a server",
            "DELETE FROM upstream_pins WHERE server = $1",
            vec![server.into()],
        )
        .await
    }
}
