//! The state of a machine, for listings.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_proto::api::{NodeState, NodeTransport};
use plexus_proto::node::HostedServer;
use plexus_proto::{NodeId, Timestamp};

use super::Gateway;
use crate::nodes::unit::{Health, Presence, Unit};

/// The current state of a machine, with the properties of its last report.
#[derive(Debug, Clone)]
pub(crate) struct NodeStatus {
    pub(crate) state: NodeState,
    /// Why calls do not get through.
    pub(crate) problem: Option<String>,
    pub(crate) draining: bool,
    /// Labels set on the hub, merged with the machine's own.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) os: Option<String>,
    pub(crate) arch: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) sandbox: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) transport: Option<NodeTransport>,
    pub(crate) rtt: Option<Duration>,
    pub(crate) seen_at: Option<Timestamp>,
    pub(crate) tools: Vec<String>,
    pub(crate) servers: Vec<HostedServer>,
    pub(crate) profiles: Vec<String>,
    pub(crate) in_flight: usize,
}

impl Gateway {
    /// The state of a machine; `None` if it does not exist.
    pub(crate) fn status(&self, id: NodeId) -> Option<NodeStatus> {
        self.unit(id).map(|unit| status(&unit))
    }

    /// Whether a machine is linked or expected to reconnect, so that no other machine may take over its identity.
    pub(crate) fn is_occupied(&self, id: NodeId) -> bool {
        self.unit(id).is_some_and(|unit| !matches!(unit.lock().presence, Presence::Offline(_)))
    }
}

fn status(unit: &Unit) -> NodeStatus {
    let state = unit.lock();
    let (kind, problem) = match (&state.presence, &state.health) {
        (Presence::Linked, Health::Unwell(why)) => (NodeState::Unwell, Some(why.clone())),
        (Presence::Linked, Health::Well | Health::Untested) => (NodeState::Online, None),
        (Presence::Expected, _) => (NodeState::Offline, Some("it is expected to connect".to_owned())),
        (Presence::Offline(why), _) if state.seen_at.is_none() => (NodeState::New, Some(why.clone())),
        (Presence::Offline(why), _) => (NodeState::Offline, Some(why.clone())),
    };
    let entry = state.entry(unit.id);
    NodeStatus {
        state: kind,
        problem,
        draining: entry.draining,
        labels: entry.labels,
        os: state.report.os.clone(),
        arch: state.report.arch.clone(),
        hostname: state.report.hostname.clone(),
        sandbox: state.report.sandbox.clone(),
        version: state.report.version.clone(),
        transport: state.transport().map(|transport| match transport {
            "memory" => NodeTransport::Memory,
            "poll" => NodeTransport::Poll,
            _ => NodeTransport::WebSocket,
        }),
        rtt: state.rtt,
        seen_at: state.seen_at,
        tools: entry.tools.into_iter().collect(),
        servers: state.report.servers.clone(),
        profiles: state.report.profiles.clone(),
        in_flight: state.in_flight(),
    }
}
