//! Names that are barred from joining with a certificate alone.
//!
//! Certificates cannot be revoked like credentials: a removed node would come back with its certificate until
//! that expires.

use plexus_proto::{NodeId, Timestamp};

use crate::{Conn, StoreError};

impl Conn {
    /// Bars certificates with this name or id from creating a node.
    pub async fn bar_node_certificate(
        &mut self,
        name: &str,
        node: NodeId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "barring the certificate of a node",
            "INSERT INTO node_certificate_bars (name, node_id, barred_at) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET node_id = excluded.node_id, barred_at = excluded.barred_at",
            vec![name.into(), node.to_string().into(), now.as_millisecond().into()],
        )
        .await?;
        Ok(())
    }

    /// Whether certificates with this name or id are barred.
    pub async fn is_node_certificate_barred(&mut self, name: &str) -> Result<bool, StoreError> {
        let row = self
            .row(
                "checking whether a certificate is barred",
                "SELECT COUNT(*) FROM node_certificate_bars WHERE name = $1 OR node_id = $1",
                vec![name.into()],
            )
            .await?;
        Ok(row.map_or(Ok(0), |row| row.int(0))? > 0)
    }
}
