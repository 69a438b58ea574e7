//! What models may read of the tools of MCP servers: each definition as somebody, or a rule, decided on it.
//!
//! One row for each tool of a server. A server without any row was never seen; one with rows is held to them.

use plexus_kit::clock::from_millis;
use plexus_proto::Timestamp;

use crate::conn::Row;
use crate::{Conn, StoreError};

/// What was decided on a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinState {
    /// A tool that says exactly this is listed.
    Approved,
    /// It was there when the server was first seen, and was not trusted.
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
    /// The server's own name of the tool.
    pub tool: String,
    /// Of the definition, in hexadecimal.
    pub hash: String,
    /// JSON.
    pub definition: String,
    pub state: PinState,
    /// Whoever approved it, or the rule that did.
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
    /// Everything that was decided on the tools of a server, by their names.
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

    /// Decides on a tool of a server, in place of what was decided before.
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

    /// Forgets what was decided on one tool of a server.
    pub async fn delete_upstream_pin(&mut self, server: &str, tool: &str) -> Result<(), StoreError> {
        self.execute(
            "forgetting a pin of a server",
            "DELETE FROM upstream_pins WHERE server = $1 AND tool = $2",
            vec![server.into(), tool.into()],
        )
        .await?;
        Ok(())
    }

    /// Forgets a server: the next one of its name is seen for the first time. How many pins it had.
    pub async fn delete_upstream_pins(&mut self, server: &str) -> Result<u64, StoreError> {
        self.execute(
            "forgetting the pins of a server",
            "DELETE FROM upstream_pins WHERE server = $1",
            vec![server.into()],
        )
        .await
    }
}
