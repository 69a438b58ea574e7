//! Invitations: each lets one machine join as one node, once, for a limited time.
//!
//! The row is deleted in the transaction that creates the node, so that a used code is the same as an unknown
//! one.

use std::collections::BTreeMap;

use plexus_kit::clock::from_millis;
use plexus_proto::{NodeId, Timestamp, TokenId};

use crate::conn::Row;
use crate::{Conn, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInvite {
    /// Hash of the code, in hexadecimal.
    pub code_hash: String,
    /// The node that the machine becomes.
    pub node_id: NodeId,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// For an existing node that lost its credential.
    pub rejoin: bool,
    /// The token that created the invitation; revoking it voids the invitation.
    pub token_id: TokenId,
    /// Subject of that token.
    pub created_by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

fn damaged(message: impl ToString) -> StoreError {
    StoreError::damaged("node_invites", message)
}

fn invite(row: &Row) -> Result<NodeInvite, StoreError> {
    Ok(NodeInvite {
        code_hash: row.text(0)?,
        node_id: row.text(1)?.parse().map_err(damaged)?,
        name: row.text(2)?,
        labels: serde_json::from_str(&row.text(3)?).map_err(damaged)?,
        rejoin: row.int(4)? != 0,
        token_id: row.text(5)?.parse().map_err(damaged)?,
        created_by: row.text(6)?,
        created_at: from_millis(row.int(7)?),
        expires_at: from_millis(row.int(8)?),
    })
}

impl Conn {
    /// Stores an invitation and replaces an earlier one for the same name.
    pub async fn insert_node_invite(&mut self, invite: &NodeInvite) -> Result<(), StoreError> {
        let labels = serde_json::to_string(&invite.labels).map_err(damaged)?;
        self.delete_node_invite(&invite.name).await?;
        self.execute(
            "storing an invitation",
            "INSERT INTO node_invites (code_hash, node_id, name, labels, rejoin, token_id, created_by, created_at, \
                 expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            vec![
                invite.code_hash.as_str().into(),
                invite.node_id.to_string().into(),
                invite.name.as_str().into(),
                labels.into(),
                i64::from(invite.rejoin).into(),
                invite.token_id.to_string().into(),
                invite.created_by.as_str().into(),
                invite.created_at.as_millisecond().into(),
                invite.expires_at.as_millisecond().into(),
            ],
        )
        .await?;
        Ok(())
    }

    /// The unexpired invitation with this code.
    pub async fn node_invite(
        &mut self,
        code_hash: &str,
        now: Timestamp,
    ) -> Result<Option<NodeInvite>, StoreError> {
        let row = self
            .row(
                "reading an invitation",
                "SELECT code_hash, node_id, name, labels, rejoin, token_id, created_by, created_at, expires_at \
                 FROM node_invites WHERE code_hash = $1 AND expires_at > $2",
                vec![code_hash.into(), now.as_millisecond().into()],
            )
            .await?;
        row.as_ref().map(invite).transpose()
    }

    /// Consumes an invitation. `None` if there is none with this code, or if it has expired.
    pub async fn take_node_invite(
        &mut self,
        code_hash: &str,
        now: Timestamp,
    ) -> Result<Option<NodeInvite>, StoreError> {
        let row = self
            .row(
                "using an invitation",
                "DELETE FROM node_invites WHERE code_hash = $1 AND expires_at > $2 \
                 RETURNING code_hash, node_id, name, labels, rejoin, token_id, created_by, created_at, expires_at",
                vec![code_hash.into(), now.as_millisecond().into()],
            )
            .await?;
        row.as_ref().map(invite).transpose()
    }

    /// Unexpired invitations, by name.
    pub async fn node_invites(&mut self, now: Timestamp) -> Result<Vec<NodeInvite>, StoreError> {
        let rows = self
            .rows(
                "listing invitations",
                "SELECT code_hash, node_id, name, labels, rejoin, token_id, created_by, created_at, expires_at \
                 FROM node_invites WHERE expires_at > $1 ORDER BY name",
                vec![now.as_millisecond().into()],
            )
            .await?;
        rows.iter().map(invite).collect()
    }

    /// Withdraws the invitation for a name. Returns false if there was none.
    pub async fn delete_node_invite(&mut self, name: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM node_invites WHERE name = $1";
        Ok(self.execute("withdrawing an invitation", sql, vec![name.into()]).await? > 0)
    }

    /// Deletes expired invitations; returns their number.
    pub async fn purge_node_invites(&mut self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = "DELETE FROM node_invites WHERE expires_at <= $1";
        self.execute("purging invitations", sql, vec![now.as_millisecond().into()]).await
    }
}
