//! Machines that run tools. One row for each, from the day it was enrolled until it is removed.

use std::collections::BTreeMap;

use plexus_kit::clock::from_millis;
use plexus_proto::{NodeId, Timestamp};

use crate::conn::Row;
use crate::{Conn, StoreError};

/// How a node came in, and so how it may come in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enrolment {
    /// With a code that was made for it.
    Code,
    /// With the key that all unattended installations share.
    Key,
    /// With a certificate of the authority that the hub knows nodes by.
    Certificate,
    /// It is the machine of the hub.
    Local,
}

impl Enrolment {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Key => "key",
            Self::Certificate => "certificate",
            Self::Local => "local",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        [Self::Code, Self::Key, Self::Certificate, Self::Local]
            .into_iter()
            .find(|enrolment| enrolment.as_str() == text)
            .ok_or_else(|| damaged(format!("enrolled by {text:?}")))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub id: NodeId,
    /// Unique among nodes.
    pub name: String,
    /// Those that were given to it on the hub.
    pub labels: BTreeMap<String, String>,
    pub enrolled_by: Enrolment,
    /// Subject of whoever let it in.
    pub created_by: String,
    pub created_at: Timestamp,
    /// It is given no new calls.
    pub draining: bool,
    /// Number of its newest link.
    pub epoch: i64,
    /// JSON: what it said of itself last.
    pub about: Option<String>,
    pub last_seen_at: Option<Timestamp>,
}

fn damaged(message: impl ToString) -> StoreError {
    StoreError::damaged("nodes", message)
}

fn node(row: &Row) -> Result<NodeRecord, StoreError> {
    Ok(NodeRecord {
        id: row.text(0)?.parse().map_err(damaged)?,
        name: row.text(1)?,
        labels: serde_json::from_str(&row.text(2)?).map_err(damaged)?,
        enrolled_by: Enrolment::parse(&row.text(3)?)?,
        created_by: row.text(4)?,
        created_at: from_millis(row.int(5)?),
        draining: row.int(6)? != 0,
        epoch: row.int(7)?,
        about: row.opt_text(8)?,
        last_seen_at: row.opt_int(9)?.map(from_millis),
    })
}

impl Conn {
    /// False when there is one of this id or name, and so nothing was stored.
    pub async fn insert_node(&mut self, node: &NodeRecord) -> Result<bool, StoreError> {
        let labels = serde_json::to_string(&node.labels).map_err(damaged)?;
        let stored = self
            .execute(
                "storing a node",
                "INSERT INTO nodes (id, name, labels, enrolled_by, created_by, created_at, draining, epoch, \
                     about, last_seen_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
                vec![
                    node.id.to_string().into(),
                    node.name.as_str().into(),
                    labels.into(),
                    node.enrolled_by.as_str().into(),
                    node.created_by.as_str().into(),
                    node.created_at.as_millisecond().into(),
                    i64::from(node.draining).into(),
                    node.epoch.into(),
                    node.about.as_deref().into(),
                    node.last_seen_at.map(|at| at.as_millisecond()).into(),
                ],
            )
            .await?;
        Ok(stored == 1)
    }

    pub async fn node(&mut self, id: NodeId) -> Result<Option<NodeRecord>, StoreError> {
        let row = self
            .row(
                "reading a node",
                "SELECT id, name, labels, enrolled_by, created_by, created_at, draining, epoch, about, \
                     last_seen_at \
                 FROM nodes WHERE id = $1",
                vec![id.to_string().into()],
            )
            .await?;
        row.as_ref().map(node).transpose()
    }

    pub async fn node_named(&mut self, name: &str) -> Result<Option<NodeRecord>, StoreError> {
        let row = self
            .row(
                "reading a node",
                "SELECT id, name, labels, enrolled_by, created_by, created_at, draining, epoch, about, \
                     last_seen_at \
                 FROM nodes WHERE name = $1",
                vec![name.into()],
            )
            .await?;
        row.as_ref().map(node).transpose()
    }

    /// All there are, by their names.
    pub async fn nodes(&mut self) -> Result<Vec<NodeRecord>, StoreError> {
        let rows = self
            .rows(
                "listing nodes",
                "SELECT id, name, labels, enrolled_by, created_by, created_at, draining, epoch, about, \
                     last_seen_at \
                 FROM nodes ORDER BY name",
                vec![],
            )
            .await?;
        rows.iter().map(node).collect()
    }

    /// Number of all nodes.
    pub async fn node_count(&mut self) -> Result<i64, StoreError> {
        let row = self.row("counting nodes", "SELECT COUNT(*) FROM nodes", vec![]).await?;
        row.map_or(Ok(0), |row| row.int(0))
    }

    /// Stores what may be changed of a node: name, labels, and whether it drains. False when it is gone, or when another
    /// has the name.
    pub async fn update_node(
        &mut self,
        id: NodeId,
        name: &str,
        labels: &BTreeMap<String, String>,
        draining: bool,
    ) -> Result<bool, StoreError> {
        let labels = serde_json::to_string(labels).map_err(damaged)?;
        let changed = self
            .execute(
                "changing a node",
                "UPDATE nodes SET name = $2, labels = $3, draining = $4 WHERE id = $1 \
                 AND NOT EXISTS (SELECT 1 FROM nodes other WHERE other.name = $2 AND other.id <> $1)",
                vec![id.to_string().into(), name.into(), labels.into(), i64::from(draining).into()],
            )
            .await?;
        Ok(changed == 1)
    }

    /// Notes that a node came in again, and how.
    pub async fn set_node_enrolment(&mut self, id: NodeId, by: Enrolment) -> Result<(), StoreError> {
        let sql = "UPDATE nodes SET enrolled_by = $2 WHERE id = $1";
        self.execute("noting how a node came in", sql, vec![id.to_string().into(), by.as_str().into()])
            .await?;
        Ok(())
    }

    /// A link of the node begins: the number of the link, which is greater than those of all before it. None when there
    /// is no such node.
    pub async fn begin_node_link(
        &mut self,
        id: NodeId,
        about: &str,
        now: Timestamp,
    ) -> Result<Option<i64>, StoreError> {
        let row = self
            .row(
                "counting a link of a node",
                "UPDATE nodes SET epoch = epoch + 1, about = $2, last_seen_at = $3 WHERE id = $1 RETURNING epoch",
                vec![id.to_string().into(), about.into(), now.as_millisecond().into()],
            )
            .await?;
        row.map(|row| row.int(0)).transpose()
    }

    /// Notes what a node says of itself now.
    pub async fn set_node_about(
        &mut self,
        id: NodeId,
        about: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "noting what a node says of itself",
            "UPDATE nodes SET about = $2, last_seen_at = $3 WHERE id = $1",
            vec![id.to_string().into(), about.into(), now.as_millisecond().into()],
        )
        .await?;
        Ok(())
    }

    /// Notes when nodes were last heard; a time before the one that is known changes nothing.
    pub async fn touch_nodes(&mut self, seen: &[(NodeId, Timestamp)]) -> Result<(), StoreError> {
        for (id, at) in seen {
            self.execute(
                "noting when a node was heard",
                "UPDATE nodes SET last_seen_at = $2 WHERE id = $1 AND (last_seen_at IS NULL OR last_seen_at < $2)",
                vec![id.to_string().into(), at.as_millisecond().into()],
            )
            .await?;
        }
        Ok(())
    }

    /// Forgets a node, and invitations for it. Its calls are left to whoever ends them. False: there was none.
    pub async fn delete_node(&mut self, id: NodeId) -> Result<bool, StoreError> {
        let id = id.to_string();
        let sql = "DELETE FROM node_invites WHERE node_id = $1";
        self.execute("forgetting the invitations of a node", sql, vec![id.as_str().into()]).await?;
        let gone =
            self.execute("forgetting a node", "DELETE FROM nodes WHERE id = $1", vec![id.into()]).await?;
        Ok(gone == 1)
    }
}
