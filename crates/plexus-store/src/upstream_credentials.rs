//! Credentials of the hub for upstream servers, sealed by the caller: the database reveals nothing about
//! them.

use plexus_proto::Timestamp;

use crate::{Conn, StoreError};

impl Conn {
    /// The sealed credential in this field of a server.
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

    /// Stores a credential, replacing an existing one.
    pub async fn store_upstream_credential(
        &mut self,
        server: &str,
        field: &str,
        sealed: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "storing a credential of a server",
            "INSERT INTO upstream_credentials (server, field, sealed, updated_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (server, field) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
            vec![server.into(), field.into(), sealed.into(), now.as_millisecond().into()],
        )
        .await?;
        Ok(())
    }

    /// Deletes all credentials of a server; returns their number.
    pub async fn delete_upstream_credentials(&mut self, server: &str) -> Result<u64, StoreError> {
        self.execute(
            "deleting the credentials of a server",
            "DELETE FROM upstream_credentials WHERE server = $1",
            vec![server.into()],
        )
        .await
    }
}
