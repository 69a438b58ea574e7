//! The machines that tools run on, as the dispatcher knows them.

pub(crate) mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use plexus_auth::Principal;
use plexus_proto::{CallId, NodeId, Timestamp};
use uuid::Uuid;

/// The machine that the hub itself runs on.
pub const LOCAL: &str = "local";

/// One machine, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    pub id: NodeId,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// Calls get through to it.
    pub online: bool,
    /// Since when that is so; none of one that was never there.
    pub since: Option<Timestamp>,
    /// Names the store that it keeps calls in, as it said last.
    pub store_id: Option<Uuid>,
    /// It takes no new calls.
    pub draining: bool,
    /// Canonical names of the tools that it has of itself; as it said last, also while it is away.
    pub tools: BTreeSet<String>,
}

impl NodeEntry {
    /// Why it takes no call now, if it does not: `offline since …`, `draining`.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        match (self.online, self.draining, self.since) {
            (false, _, Some(since)) => Some(format!("offline since {since:.0}")),
            (false, _, None) => Some("offline, and never seen".to_owned()),
            (true, true, _) => Some("draining: it takes no new calls".to_owned()),
            (true, false, _) => None,
        }
    }
}

/// Those of the machines that somebody may use, whether they are up or not.
pub fn usable<'n>(all: &'n [NodeEntry], principal: &Principal) -> impl Iterator<Item = &'n NodeEntry> {
    all.iter().filter(|node| principal.allows(&selection::scope(&node.name)))
}

/// Who knows the machines, and brings calls to them.
pub trait Nodes: Send + Sync + fmt::Debug {
    /// All there are, whoever may see them. Costs no more than a pointer: it is read with every call.
    fn all(&self) -> Arc<[NodeEntry]>;

    /// The end of a call is committed: the node that ran it need not keep it any longer.
    fn settled(&self, node: NodeId, call: CallId);
}
