//! A node as the API shows it: its database record combined with the gateway's state.

use plexus_proto::api::{Node, NodeServer, NodeState};
use plexus_proto::node::HostedServer;
use plexus_store::NodeRecord;

use crate::services::Services;

pub(super) fn shown(services: &Services, record: NodeRecord) -> Node {
    let NodeRecord { id, name, labels, draining, created_at, last_seen_at, .. } = record;
    let Some(status) = services.nodes.status(id) else {
        // It has just joined or changed, and the gateway has not been notified yet.
        return Node {
            id,
            name,
            state: if last_seen_at.is_some() { NodeState::Offline } else { NodeState::New },
            problem: None,
            draining,
            labels,
            os: None,
            arch: None,
            hostname: None,
            sandbox: None,
            version: None,
            transport: None,
            rtt_ms: None,
            last_seen_at,
            created_at,
            tools: vec![],
            mcp_servers: vec![],
            profiles: vec![],
            in_flight: 0,
        };
    };
    let linked = status.transport.is_some();
    Node {
        id,
        name,
        state: status.state,
        problem: status.problem,
        // The node's last report is valid only while it is linked.
        draining: draining || (linked && status.draining),
        labels: status.labels,
        os: status.os,
        arch: status.arch,
        hostname: status.hostname,
        sandbox: status.sandbox,
        version: status.version,
        transport: status.transport,
        rtt_ms: status.rtt.filter(|_| linked).map(|rtt| rtt.as_secs_f64() * 1_000.0),
        last_seen_at: status.seen_at.max(last_seen_at),
        created_at,
        tools: status.tools,
        mcp_servers: status.servers.into_iter().map(server).collect(),
        profiles: status.profiles,
        in_flight: u64::try_from(status.in_flight).unwrap_or(u64::MAX),
    }
}

fn server(server: HostedServer) -> NodeServer {
    let name =
        |tool: &serde_json::Map<String, serde_json::Value>| Some(tool.get("name")?.as_str()?.to_owned());
    NodeServer {
        name: server.name,
        state: server.state,
        tools: server.tools.iter().filter_map(name).collect(),
    }
}
