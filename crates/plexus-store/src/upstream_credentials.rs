//! What the hub was given to use MCP servers with, sealed by whoever keeps it here: nothing of it can be read from this.

use plexus_proto::Timestamp;

use crate::{Conn, StoreError};

impl Conn {
    /// What is sealed under this name for a server.
    pub async fn upstream_credential(
        &mut self,
        server: &str,
        field: &str,
    ) -> Result<Option<String>, StoreError> {
        let row = self
            .row(
                "reading a credential of a server",
                "SELECT sealed FROM upstream_credentials WHERE server = $1 AND field = $2",
                vec![server.into(), field.into()],
            )
            .await?;
        row.map(|row| row.text(0)).transpose()
    }

    /// Keeps it in the place of what was there.
    pub async fn keep_upstream_credential(
        &mut self,
        server: &str,
        field: &str,
        sealed: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "keeping a credential of a server",
            "INSERT INTO upstream_credentials (server, field, sealed, updated_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (server, field) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
            vec![server.into(), field.into(), sealed.into(), now.as_millisecond().into()],
        )
        .await?;
        Ok(())
    }

    /// Forgets everything of a server; how much that was.
    pub async fn forget_upstream_credentials(&mut self, server: &str) -> Result<u64, StoreError> {
        self.execute(
            "forgetting the credentials of a server",
            "DELETE FROM upstream_credentials WHERE server = $1",
            vec![server.into()],
        )
        .await
    }
}
