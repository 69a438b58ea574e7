//! `plexus node show`, and the texts for a machine that other commands share.

use std::collections::BTreeMap;

use plexus_proto::Timestamp;
use plexus_proto::api::{Node, NodeState, NodeTransport};

use crate::client::Hub;
use crate::output::{Output, one_line};

pub(super) async fn run(out: &Output, hub: &Hub, node: &str) -> anyhow::Result<()> {
    let answer = hub.get(&["nodes", node], &[]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let node: Node = answer.decode()?;
    let or = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), one_line);
    let transport = match node.transport {
        Some(NodeTransport::Memory) => "the hub's own machine",
        Some(NodeTransport::WebSocket) => "ws",
        Some(NodeTransport::Poll) => "poll",
        None => "-",
    };
    out.fields(&[
        ("node", node.id.to_string()),
        ("name", node.name.clone()),
        ("state", state(&node)),
        ("labels", labels(&node.labels)),
        ("system", system(&node)),
        ("host name", or(&node.hostname)),
        ("version", or(&node.version)),
        ("sandbox", or(&node.sandbox)),
        ("transport", transport.to_owned()),
        ("round trip", round_trip(&node)),
        ("last seen", seen(&node, |at| out.at(at))),
        ("joined", out.at(node.created_at)),
        ("running calls", node.in_flight.to_string()),
        ("tools", join_or_dash(&node.tools)),
        ("profiles", join_or_dash(&node.profiles)),
    ])?;
    if !node.mcp_servers.is_empty() {
        out.block("\nMCP servers\n")?;
        let rows = node
            .mcp_servers
            .iter()
            .map(|server| vec![server.name.clone(), server.state.clone(), server.tools.len().to_string()]);
        out.table(&["NAME", "STATE", "TOOLS"], rows.collect())?;
    }
    if let Some(problem) = &node.problem {
        out.note(&format!("Calls to this machine fail: {}", one_line(problem)));
    }
    if node.state == NodeState::New {
        out.note("It has joined but never connected: start `plexus node run` there.");
    }
    Ok(())
}

pub(super) fn state(node: &Node) -> String {
    let state = node.state.as_str();
    if node.draining { format!("{state}, draining") } else { state.to_owned() }
}

pub(super) fn system(node: &Node) -> String {
    match (&node.os, &node.arch) {
        (Some(os), Some(arch)) => one_line(&format!("{os}/{arch}")),
        _ => "-".to_owned(),
    }
}

pub(super) fn round_trip(node: &Node) -> String {
    match node.rtt_ms {
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) => format!("{ms:.0} ms"),
        None => "-".to_owned(),
    }
}

/// When the machine was last seen: now, if it is connected.
pub(super) fn seen(node: &Node, when: impl Fn(Timestamp) -> String) -> String {
    match node.last_seen_at {
        _ if matches!(node.state, NodeState::Online | NodeState::Unwell) => "now".to_owned(),
        Some(at) => when(at),
        None => "never".to_owned(),
    }
}

pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "-".to_owned() } else { one_line(&labels.join(" ")) }
}

fn join_or_dash(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { one_line(&names.join(", ")) }
}
