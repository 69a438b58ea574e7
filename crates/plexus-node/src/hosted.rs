//! MCP servers that run on this machine and are called through the hub.
//!
//! Their tool definitions are checked here, as on a hub: a definition that has changed since it was first seen is
//! quarantined until the server's file says `"approve": "auto"`. So the machine has the last word on the tools it
//! offers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use plexus_kit::{Clock, Environment, Supervisor};
use plexus_proto::node::HostedServer;
use plexus_store::Store;
use plexus_tools::{Registry, Tool};
use plexus_upstream::{UpstreamOptions, Upstreams};
use serde_json::{Map, Value};
use tokio::sync::watch;

/// Limits of what is sent to the hub.
const SERVERS: usize = 64;
const TOOLS: usize = 1024;

/// Tools about servers that are for the operators of a hub and are not offered by a node.
const OPERATOR_TOOLS: [&str; 2] = ["mcp_status", "reload_tools"];

#[derive(Debug)]
pub(crate) struct HostedServers(Upstreams);

impl HostedServers {
    pub(crate) fn start(
        dir: PathBuf,
        environment: &Environment,
        store: &Store,
        registry: &Arc<Registry>,
        clock: &Clock,
        supervisor: &Supervisor,
    ) -> Self {
        let options = UpstreamOptions::new(dir, environment.clone(), store.clone());
        let upstreams = Upstreams::start(options, registry.clone(), clock.clone(), supervisor);
        registry.remove(&OPERATOR_TOOLS);
        Self(upstreams)
    }

    /// The servers with the definitions of their tools, limited to `bytes` in total.
    pub(crate) fn servers(&self, registry: &Registry, bytes: usize) -> Vec<HostedServer> {
        let mut tools: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
        let (mut left, mut count) = (bytes, 0);
        for tool in registry.all() {
            let Some(upstream) = tool.spec().upstream() else { continue };
            let definition = definition(&tool);
            let size = serde_json::to_string(&definition).map_or(usize::MAX, |text| text.len());
            if size > left || count == TOOLS {
                tracing::warn!(tool = %tool.spec().name, "a tool is not offered to the hub: the definitions are too long or too many");
                continue;
            }
            left -= size;
            count += 1;
            tools.entry(upstream.server.clone()).or_default().push(definition);
        }
        let servers = self.0.list().into_iter().take(SERVERS).map(|server| HostedServer {
            state: server.state.as_str().to_owned(),
            tools: tools.remove(&server.slug).unwrap_or_default(),
            name: server.slug,
        });
        servers.collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}

/// The definition as in MCP, with the name under which it is called on this node.
fn definition(tool: &Tool) -> Map<String, Value> {
    let spec = tool.spec();
    let mut definition = spec.upstream().map(|upstream| upstream.definition.clone()).unwrap_or_default();
    definition.insert("name".to_owned(), spec.name.to_string().into());
    definition.insert("inputSchema".to_owned(), spec.input_schema.clone());
    definition
}
