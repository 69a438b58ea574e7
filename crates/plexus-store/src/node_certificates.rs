//! Names for which a certificate lets nobody in by itself.
//!
//! A certificate cannot be taken back as a credential can: what was removed would come back with it until it expires.

use plexus_proto::{NodeId, Timestamp};

use crate::{Conn, StoreError};

impl Conn {
    /// From now on no certificate for this name or id makes a node.
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

    /// Whether a certificate for this, which is a name or an id, makes no node.
    pub async fn is_node_certificate_barred(&mut self, name: &str) -> Result<bool, StoreError> {
        let row = self
            .row(
                "looking whether a certificate is barred",
                "SELECT COUNT(*) FROM node_certificate_bars WHERE name = $1 OR node_id = $1",
                vec![name.into()],
            )
            .await?;
        Ok(row.map_or(Ok(0), |row| row.int(0))? > 0)
    }
}
