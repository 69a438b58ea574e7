//! Tools of machines in the hub's registry: the native tools of every node, and those of MCP servers that run on
//! nodes.
//!
//! All of them share one handler, which forwards the call to the machine that the dispatcher has chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_kit::{Clock, Stage, Supervisor};
use plexus_proto::node::{CallEvent, HostedServer};
use plexus_proto::{ErrorCode, Timestamp, tool_name};
use plexus_store::Store;
use plexus_tools::nodes::NodeEntry;
use plexus_tools::{CallError, Dispatcher, Host, Outcome, Registry, Run, Tool, ToolContext, outcome};
use plexus_upstream::{Upstreams, hosted};
use serde_json::{Map, Value};

use super::{Conclude, EventSink, Gateway, OutgoingCall, Undelivered};

/// Maximum number of MCP servers of one machine, and of tools of one server; more are left out.
const MAX_SERVERS: usize = 100;
const MAX_TOOLS: usize = 1_000;
/// Maximum size of a call event, as JSON.
const MAX_EVENT: usize = 128 * 1024;
/// How long the servers of an offline machine stay listed.
const OFFLINE_LISTING: Duration = Duration::from_secs(24 * 3600);
/// Interval between two updates, and the delay after a change in which further changes are collected.
const UPDATE_INTERVAL: Duration = Duration::from_secs(60);
const COLLECT_DELAY: Duration = Duration::from_millis(50);

/// The machines' servers at the last update.
type ListedServers = (Vec<(NodeEntry, Vec<HostedServer>)>, BTreeSet<String>);

/// Registers the tools of machines, and keeps them up to date as machines connect and disconnect.
pub(crate) fn register_machine_tools(
    gateway: &Gateway,
    dispatcher: &Dispatcher,
    upstreams: &Upstreams,
    store: &Store,
    clock: &Clock,
    supervisor: &Supervisor,
) {
    let run = handler(gateway);
    let registry = dispatcher.registry();
    registry.add(plexus_machine::tools::specs().into_iter().map(|spec| Tool::on_node(spec, run.clone())));
    gateway.conclude_with(conclude(dispatcher, store));
    let mut catalogue = MachineToolCatalogue {
        gateway: gateway.clone(),
        registry: registry.clone(),
        upstreams: upstreams.clone(),
        clock: clock.clone(),
        run,
        listed: ListedServers::default(),
    };
    catalogue.update();
    let stop = supervisor.stopping(Stage::Work);
    let (mut machines, mut servers) = (gateway.changes(), upstreams.changes());
    supervisor.spawn(Stage::Work, "tools of nodes", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = machines.changed() => {}
                Ok(()) = servers.changed() => {}
                () = tokio::time::sleep(UPDATE_INTERVAL) => {}
            }
            tokio::time::sleep(COLLECT_DELAY).await;
            catalogue.update();
        }
    });
}

/// The handler of all tools that run on machines.
fn handler(gateway: &Gateway) -> Arc<Run> {
    let gateway = gateway.clone();
    Arc::new(move |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
        let gateway = gateway.clone();
        Box::pin(async move { run(&gateway, context, &arguments).await })
    })
}

async fn run(gateway: &Gateway, context: ToolContext, arguments: &Value) -> Result<Outcome, CallError> {
    let Some(node) = &context.node else {
        return Err(CallError::new(
            ErrorCode::Internal,
            "no machine was chosen for a tool that runs on machines",
        ));
    };
    let sent = context.clone();
    let call = OutgoingCall {
        call: context.to_node(arguments)?,
        queue: context.waits_for_node(),
        on_sent: Some(Arc::new(move || sent.sent())),
    };
    match gateway.call(node.id, call, events(context.clone()), &context.cancel).await {
        Ok(ended) => outcome::from_frame(ended).map(Outcome::Ready),
        Err(why) => {
            let error = why.error(&node.name);
            // Its row is retained, and its end is recorded by the next start of the hub.
            Err(match why {
                Undelivered::Stopping { continues: true } => error.while_still_running(),
                _ => error,
            })
        }
    }
}

/// Forwards the events of a call to the dispatcher; malformed events are ignored.
fn events(context: ToolContext) -> EventSink {
    Arc::new(move |event: CallEvent| {
        let payload = event.payload.get();
        if payload.len() <= MAX_EVENT
            && let Ok(payload) = serde_json::from_str::<Map<String, Value>>(payload)
        {
            context.emit(&event.kind, payload);
        }
    })
}

/// Ends calls without a waiting caller, if they belong to this node.
fn conclude(dispatcher: &Dispatcher, store: &Store) -> Conclude {
    let (dispatcher, store) = (dispatcher.clone(), store.clone());
    Arc::new(move |node, call_id, ended| {
        let (dispatcher, store) = (dispatcher.clone(), store.clone());
        Box::pin(async move {
            let row = store.read_committed().await?.node_call(call_id).await?;
            match row.filter(|row| row.node_id == node) {
                Some(row) => dispatcher.conclude(row, outcome::from_frame(ended)).await.map(drop),
                None => Ok(()),
            }
        })
    })
}

/// Keeps the tools of servers on machines registered.
struct MachineToolCatalogue {
    gateway: Gateway,
    registry: Arc<Registry>,
    upstreams: Upstreams,
    clock: Clock,
    run: Arc<Run>,
    listed: ListedServers,
}

impl MachineToolCatalogue {
    /// Registers the tools that the machines report now.
    fn update(&mut self) {
        let now = self.clock.now();
        let mut machines = self.gateway.hosted_servers();
        machines.retain(|(node, _)| is_listed(node, now));
        // A machine's connection state does not change its listed tools.
        for (node, _) in &mut machines {
            (node.online, node.draining, node.since) = (true, false, None);
        }
        let used_slugs: BTreeSet<String> =
            self.upstreams.list().into_iter().map(|server| server.slug).collect();
        if (&machines, &used_slugs) == (&self.listed.0, &self.listed.1) {
            return;
        }
        let (specs, warnings) = specs(&machines, &used_slugs);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let tools = specs.into_iter().map(|spec| Tool::upstream(spec, self.run.clone())).collect();
        for name in self.registry.set_hosted(tools) {
            tracing::warn!(tool = name, "ignored a tool of a node: another tool already has its name");
        }
        self.listed = (machines, used_slugs);
    }
}

fn is_listed(node: &NodeEntry, now: Timestamp) -> bool {
    let offline_since = node.since.filter(|_| !node.online);
    offline_since
        .is_none_or(|since| now.duration_since(since) < OFFLINE_LISTING.try_into().unwrap_or_default())
}

/// The tool specifications of these servers, and warnings about those that are left out.
fn specs(
    machines: &[(NodeEntry, Vec<HostedServer>)],
    used_slugs: &BTreeSet<String>,
) -> (Vec<plexus_tools::ToolSpec>, Vec<String>) {
    let (mut specs, mut warnings) = (Vec::new(), Vec::new());
    let mut slugs = used_slugs.clone();
    // In the order in which the machines joined, so that a new machine never renames an older one's servers.
    let by_age: BTreeMap<_, _> = machines.iter().map(|(node, servers)| (node.id, (node, servers))).collect();
    for (node, servers) in by_age.into_values() {
        let host = Host { id: node.id, name: node.name.clone() };
        if servers.len() > MAX_SERVERS {
            warnings.push(format!(
                "{} has {} MCP servers; only {MAX_SERVERS} are used",
                node.name,
                servers.len()
            ));
        }
        for server in servers.iter().take(MAX_SERVERS) {
            let Some(slug) = slug_of(server, node, &slugs) else {
                let shown: String = server.name.chars().take(40).collect();
                warnings.push(format!("the name {shown:?} of an MCP server of {} cannot be used", node.name));
                continue;
            };
            let prefix = format!("{}{}{}", tool_name::PREFIX, server.name, tool_name::SEPARATOR);
            for definition in server.tools.iter().take(MAX_TOOLS) {
                let full_name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
                let spec = match full_name.strip_prefix(&prefix) {
                    Some(tool) if !tool.is_empty() => {
                        hosted(&host, &slug, tool_name::canonical(&slug, tool), definition)
                    }
                    _ => Err("ignored a tool whose name does not belong to its server".to_owned()),
                };
                match spec {
                    Ok(spec) => specs.push(spec),
                    Err(why) => warnings.push(format!("the MCP server {slug} on {}: {why}", node.name)),
                }
            }
            slugs.insert(slug);
        }
    }
    (specs, warnings)
}

/// The slug of a machine's server: its own name, or combined with the machine's name if that is taken.
fn slug_of(server: &HostedServer, node: &NodeEntry, used_slugs: &BTreeSet<String>) -> Option<String> {
    let own = tool_name::slug(&server.name).filter(|slug| *slug == server.name)?;
    let name_with_node = tool_name::slug(&format!("{own}_{}", node.name));
    let mut names = [Some(own), name_with_node].into_iter().flatten();
    names.find(|slug| {
        slug != tool_name::RESERVED_SLUG && slug.len() <= tool_name::MAX_SLUG && !used_slugs.contains(slug)
    })
}

#[cfg(test)]
mod tests;
