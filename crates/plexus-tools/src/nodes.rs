//! The nodes that tools run on, as the dispatcher sees them.

pub(crate) mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use plexus_auth::Principal;
use plexus_proto::{CallId, NodeId, Timestamp};
use uuid::Uuid;

/// The node on the hub's own machine.
pub const LOCAL: &str = "local";

/// The current state of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    pub id: NodeId,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// Whether calls reach it.
    pub online: bool,
    /// Since when; none if the node has never connected.
    pub since: Option<Timestamp>,
    /// The id of the store that holds its calls, as last reported.
    pub store_id: Option<Uuid>,
    /// Whether it refuses new calls.
    pub draining: bool,
    /// The canonical names of its own tools, as last reported; retained while it is offline.
    pub tools: BTreeSet<String>,
}

impl NodeEntry {
    /// Why it cannot accept a call now, if so: `offline since …`, `draining`.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        match (self.online, self.draining, self.since) {
            (false, _, Some(since)) => Some(format!("offline since {since:.0}")),
            (false, _, None) => Some("offline and has never connected".to_owned()),
            (true, true, _) => Some("draining and accepts no new calls".to_owned()),
            (true, false, _) => None,
        }
    }
}

/// The nodes that a principal may use, online or not.
pub fn usable<'n>(all: &'n [NodeEntry], principal: &Principal) -> impl Iterator<Item = &'n NodeEntry> {
    all.iter().filter(|node| principal.allows(&selection::scope(&node.name)))
}

/// The directory of nodes, which also delivers calls to them.
pub trait Nodes: Send + Sync + fmt::Debug {
    /// All nodes, regardless of permissions. Must be cheap: it is read for every call.
    fn all(&self) -> Arc<[NodeEntry]>;

    /// The end of a call is committed, so its node may forget it.
    fn settled(&self, node: NodeId, call: CallId);
}
