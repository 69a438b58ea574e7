//! Limits of a machine's `hello`. It is stored in memory and in the database, so all of it is bounded.

use plexus_proto::node::{Hello, VERSIONS};
use plexus_proto::{NodeId, node_name};

const TOOLS: usize = 256;
const SERVERS: usize = 64;
const SERVER_TOOLS: usize = 1024;
const PROFILES: usize = 256;
const CALLS: usize = 20_000;
const NAME: usize = 128;

/// The newest protocol version that both sides support.
pub(super) fn version(hello: &Hello) -> Option<u32> {
    VERSIONS.iter().copied().find(|version| hello.versions.contains(version))
}

/// The first problem of a `hello`, if there is one.
pub(super) fn problem(hello: &Hello, node: NodeId) -> Option<String> {
    if hello.node_id != node {
        return Some(format!("this is the link of the node {node}, but hello names {}", hello.node_id));
    }
    let tools: usize = hello.mcp_servers.iter().map(|server| server.tools.len()).sum();
    let counts = [
        ("tools", hello.tools.len(), TOOLS),
        ("MCP servers", hello.mcp_servers.len(), SERVERS),
        ("tools of MCP servers", tools, SERVER_TOOLS),
        ("profiles", hello.profiles.len(), PROFILES),
        ("calls", hello.calls.len(), CALLS),
    ];
    for (what, count, most) in counts {
        if count > most {
            return Some(format!("hello lists {count} {what}, and the limit is {most}"));
        }
    }
    let names = hello.tools.iter().map(|tool| &tool.name).chain(&hello.profiles);
    let servers = hello.mcp_servers.iter().flat_map(|server| [&server.name, &server.state]);
    let own =
        [&hello.version, &hello.os, &hello.arch].into_iter().chain(&hello.hostname).chain(&hello.sandbox);
    if let Some(name) = names.chain(servers).chain(own).find(|name| name.len() > NAME) {
        let begin: String = name.chars().take(32).collect();
        return Some(format!(
            "hello has a name of {} bytes ({begin:?}…), and the limit is {NAME}",
            name.len()
        ));
    }
    // They are shown wherever the node is, like labels set on the hub.
    node_name::check_labels(&hello.labels).err().map(|problem| format!("invalid labels in hello: {problem}"))
}
