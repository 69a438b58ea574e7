//! The description of a node that it sends to the hub in `hello`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plexus_machine::Machine;
use plexus_machine::tools::probe;
use plexus_proto::node::{Dial, Hello, InFlight, MAX_FRAME, NodeTool, VERSIONS};
use plexus_tools::{Placement, Registry};
use tokio::sync::watch;
use uuid::Uuid;

use crate::NodeOptions;
use crate::hosted::HostedServers;

/// Changes within this time are sent together.
const COALESCE: Duration = Duration::from_millis(250);
/// The policy requires a sandbox that this machine does not support, so no command is run.
const UNAVAILABLE: &str = "unavailable";
/// Maximum bytes of a frame for the definitions of hosted tools; the rest is for calls.
const DEFINITIONS: usize = MAX_FRAME / 2;

#[derive(Debug)]
pub(crate) struct Capabilities {
    /// The parts that do not change.
    fixed: Hello,
    registry: Arc<Registry>,
    hosted: Option<HostedServers>,
    machine: Machine,
}

impl Capabilities {
    pub(crate) fn new(
        options: &NodeOptions,
        store_id: Uuid,
        registry: Arc<Registry>,
        hosted: Option<HostedServers>,
        machine: Machine,
    ) -> Self {
        let fixed = Hello {
            versions: VERSIONS.to_vec(),
            node_id: options.id,
            store_id,
            dial: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            hostname: hostname(),
            sandbox: None,
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            profiles: Vec::new(),
            labels: options.labels.clone(),
            calls: Vec::new(),
            draining: false,
        };
        Self { fixed, registry, hosted, machine }
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The current description, for the link of this dial.
    pub(crate) fn hello(&self, dial: Dial, calls: Vec<InFlight>, draining: bool) -> Hello {
        let policy = self.machine.policy.now();
        let own: BTreeSet<String> = self
            .registry
            .all()
            .iter()
            .filter(|tool| tool.spec().placement == Placement::Node)
            .map(|tool| tool.spec().name.to_string())
            .filter(|name| name != probe::NAME && policy.check_tool(name).is_ok())
            .collect();
        let tools = own.into_iter().map(|name| NodeTool { name }).collect();
        let mcp_servers = match &self.hosted {
            Some(hosted) => hosted.servers(&self.registry, DEFINITIONS),
            None => Vec::new(),
        };
        let sandbox = self
            .machine
            .sandbox_level(&policy)
            .map_or_else(|_| UNAVAILABLE.to_owned(), |level| level.to_string());
        Hello {
            dial: Some(dial),
            sandbox: Some(sandbox),
            tools,
            mcp_servers,
            calls,
            draining,
            ..self.fixed.clone()
        }
    }

    /// Subscribes to everything that can change the description.
    pub(crate) fn changes(&self) -> CapabilityChanges {
        CapabilityChanges {
            tools: self.registry.versions(),
            policy: self.machine.policy.changes(),
            servers: self.hosted.as_ref().map(HostedServers::changes),
        }
    }
}

pub(crate) struct CapabilityChanges {
    tools: watch::Receiver<u64>,
    policy: watch::Receiver<u64>,
    servers: Option<watch::Receiver<u64>>,
}

impl CapabilityChanges {
    /// Returns when something has changed since the last call.
    pub(crate) async fn next(&mut self) {
        let servers = async {
            match &mut self.servers {
                Some(servers) => servers.changed().await,
                None => std::future::pending().await,
            }
        };
        let changed = tokio::select! {
            changed = self.tools.changed() => changed,
            changed = self.policy.changed() => changed,
            changed = servers => changed,
        };
        if changed.is_err() {
            // The sender is gone: nothing will change.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(COALESCE).await;
        self.tools.mark_unchanged();
        self.policy.mark_unchanged();
        if let Some(servers) = &mut self.servers {
            servers.mark_unchanged();
        }
    }
}

fn hostname() -> Option<String> {
    sysinfo::System::host_name().ok().filter(|name| !name.is_empty())
}
