//! Invitations: each lets one machine become one node, once, for a while.
//!
//! The row goes with its use, in the transaction that makes the node: a code that was used is one that never was.

use std::collections::BTreeMap;

use plexus_kit::clock::from_millis;
use plexus_proto::{NodeId, Timestamp, TokenId};

use crate::conn::Row;
use crate::{Conn, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInvite {
    /// Of the code, in hexadecimal.
    pub code_hash: String,
    /// What whoever comes with the code will be.
    pub node_id: NodeId,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// For a node that is there already and has lost its credential.
    pub rejoin: bool,
    /// The token that invited; when it is revoked, the invitation is void.
    pub token_id: TokenId,
    /// Its subject.
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
    /// Stores an invitation, in the place of an earlier one for the same name.
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

    /// The invitation of a code, which has not expired.
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

    /// Uses an invitation up. None: there is none with this code, or it has expired.
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

    /// Those that can still be used, by their names.
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

    /// Withdraws the invitation for a name. False: there was none.
    pub async fn delete_node_invite(&mut self, name: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM node_invites WHERE name = $1";
        Ok(self.execute("withdrawing an invitation", sql, vec![name.into()]).await? > 0)
    }

    /// Forgets invitations that have expired; returns how many.
    pub async fn purge_node_invites(&mut self, now: Timestamp) -> Result<u64, StoreError> {
        let sql = "DELETE FROM node_invites WHERE expires_at <= $1";
        self.execute("purging invitations", sql, vec![now.as_millisecond().into()]).await
    }
}
