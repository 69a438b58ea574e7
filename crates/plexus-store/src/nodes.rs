//! Machines that run tools: one row per node, from its enrolment to its removal.

use std::collections::BTreeMap;

use plexus_kit::clock::from_millis;
use plexus_proto::{NodeId, Timestamp};

use crate::conn::Row;
use crate::{Conn, StoreError};

/// How a node was enrolled, which determines how it may rejoin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enrolment {
    /// With an invitation code.
    Code,
    /// With the key shared by unattended installations.
    Key,
    /// With a certificate issued by the hub's CA for nodes.
    Certificate,
    /// The hub's own machine.
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
    /// Labels set on the hub.
    pub labels: BTreeMap<String, String>,
    pub enrolled_by: Enrolment,
    /// Subject that admitted the node.
    pub created_by: String,
    pub created_at: Timestamp,
    /// Receives no new calls.
    pub draining: bool,
    /// Number of its newest link.
    pub epoch: i64,
    /// JSON of the node's last report about itself.
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
    /// Returns false if there already is a node with this id or name; nothing is stored then.
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

    /// All nodes, by name.
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

    /// Stores the mutable fields of a node: name, labels and draining state. Returns false if it does not
    /// exist, or if another node has the name.
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

    /// Records how a node rejoined.
    pub async fn set_node_enrolment(&mut self, id: NodeId, by: Enrolment) -> Result<(), StoreError> {
        let sql = "UPDATE nodes SET enrolled_by = $2 WHERE id = $1";
        self.execute(
            "recording how a node was enrolled",
            sql,
            vec![id.to_string().into(), by.as_str().into()],
        )
        .await?;
        Ok(())
    }

    /// Starts a link of the node and returns its number, which is greater than all earlier ones. `None` if
    /// there is no such node.
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

    /// Stores a node's current report about itself.
    pub async fn set_node_about(
        &mut self,
        id: NodeId,
        about: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.execute(
            "storing the report of a node",
            "UPDATE nodes SET about = $2, last_seen_at = $3 WHERE id = $1",
            vec![id.to_string().into(), about.into(), now.as_millisecond().into()],
        )
        .await?;
        Ok(())
    }

    /// Records when nodes were last heard from; ignores times before the stored one.
    pub async fn touch_nodes(&mut self, seen_at: &[(NodeId, Timestamp)]) -> Result<(), StoreError> {
        for (id, at) in seen_at {
            self.execute(
                "recording when a node was heard from",
                "UPDATE nodes SET last_seen_at = $2 WHERE id = $1 AND (last_seen_at IS NULL OR last_seen_at < $2)",
                vec![id.to_string().into(), at.as_millisecond().into()],
            )
            .await?;
        }
        Ok(())
    }

    /// Deletes a node and its invitations. Its calls are ended separately. Returns false if there was none.
    pub async fn delete_node(&mut self, id: NodeId) -> Result<bool, StoreError> {
        let id = id.to_string();
        let sql = "DELETE FROM node_invites WHERE node_id = $1";
        self.execute("deleting the invitations of a node", sql, vec![id.as_str().into()]).await?;
        let deleted =
            self.execute("deleting a node", "DELETE FROM nodes WHERE id = $1", vec![id.into()]).await?;
        Ok(deleted == 1)
    }
}
