//! Tools that machines run, in the catalogue of the hub: those that every node has of itself, and those of the MCP servers
//! that run on nodes.
//!
//! All of them have one handler, which brings the call to the machine that the dispatcher has chosen.

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

/// MCP servers of one machine, and tools of one server; more are left out.
const MAX_SERVERS: usize = 100;
const MAX_TOOLS: usize = 1_000;
/// Longest event of a call that is read, as JSON.
const MAX_EVENT: usize = 128 * 1024;
/// For so long the servers of a machine that is away stay listed.
const AWAY: Duration = Duration::from_secs(24 * 3600);
/// Between two looks, and for a change to be followed by others.
const LOOK: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_millis(50);

/// Servers of the machines, as they were looked at last.
type Seen = (Vec<(NodeEntry, Vec<HostedServer>)>, BTreeSet<String>);

/// Puts the tools of machines into the catalogue, and keeps them there as machines come and go.
pub(crate) fn offer(
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
    let mut catalogue = Catalogue {
        gateway: gateway.clone(),
        registry: registry.clone(),
        upstreams: upstreams.clone(),
        clock: clock.clone(),
        run,
        seen: Seen::default(),
    };
    catalogue.look();
    let stop = supervisor.stopping(Stage::Work);
    let (mut machines, mut servers) = (gateway.changes(), upstreams.changes());
    supervisor.spawn(Stage::Work, "tools of nodes", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = machines.changed() => {}
                Ok(()) = servers.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            tokio::time::sleep(SETTLE).await;
            catalogue.look();
        }
    });
}

/// What every tool of a machine does with a call.
fn handler(gateway: &Gateway) -> Arc<Run> {
    let gateway = gateway.clone();
    Arc::new(move |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
        let gateway = gateway.clone();
        Box::pin(async move { run(&gateway, context, &arguments).await })
    })
}

async fn run(gateway: &Gateway, context: ToolContext, arguments: &Value) -> Result<Outcome, CallError> {
    let Some(node) = &context.node else {
        return Err(CallError::new(ErrorCode::Internal, "no machine was chosen for a call to one"));
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
            // Its row stays, and its end is recorded by the next start of the hub.
            Err(match why {
                Undelivered::Stopping { goes_on: true } => error.while_it_goes_on(),
                _ => error,
            })
        }
    }
}

/// What a call tells goes where the dispatcher says; what is none of an event's form is passed over.
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

/// Ends calls that nobody waits for: of this very node, and no other's.
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

/// Keeps the tools of servers on machines in the registry.
struct Catalogue {
    gateway: Gateway,
    registry: Arc<Registry>,
    upstreams: Upstreams,
    clock: Clock,
    run: Arc<Run>,
    seen: Seen,
}

impl Catalogue {
    /// Lists what the machines say now.
    fn look(&mut self) {
        let now = self.clock.now();
        let mut machines = self.gateway.hosted();
        machines.retain(|(node, _)| is_listed(node, now));
        // Whether a machine is up does not change what is listed of it.
        for (node, _) in &mut machines {
            (node.online, node.draining, node.since) = (true, false, None);
        }
        let taken: BTreeSet<String> = self.upstreams.list().into_iter().map(|server| server.slug).collect();
        if (&machines, &taken) == (&self.seen.0, &self.seen.1) {
            return;
        }
        let (specs, warnings) = specs(&machines, &taken);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let tools = specs.into_iter().map(|spec| Tool::upstream(spec, self.run.clone())).collect();
        for name in self.registry.set_hosted(tools) {
            tracing::warn!(tool = name, "a tool of a node has the name of another tool and is left out");
        }
        self.seen = (machines, taken);
    }
}

fn is_listed(node: &NodeEntry, now: Timestamp) -> bool {
    let away = node.since.filter(|_| !node.online);
    away.is_none_or(|since| now.duration_since(since) < AWAY.try_into().unwrap_or_default())
}

/// What is said of the tools of these servers, and what is wrong with those that are left out.
fn specs(
    machines: &[(NodeEntry, Vec<HostedServer>)],
    taken: &BTreeSet<String>,
) -> (Vec<plexus_tools::ToolSpec>, Vec<String>) {
    let (mut specs, mut warnings) = (Vec::new(), Vec::new());
    let mut slugs = taken.clone();
    // In the order in which they joined: a new machine changes no name of an older one's.
    let by_age: BTreeMap<_, _> = machines.iter().map(|(node, servers)| (node.id, (node, servers))).collect();
    for (node, servers) in by_age.into_values() {
        let host = Host { id: node.id, name: node.name.clone() };
        if servers.len() > MAX_SERVERS {
            warnings.push(format!(
                "{} has {} MCP servers, of which {MAX_SERVERS} are used",
                node.name,
                servers.len()
            ));
        }
        for server in servers.iter().take(MAX_SERVERS) {
            let Some(slug) = slug_of(server, node, &slugs) else {
                let shown: String = server.name.chars().take(40).collect();
                warnings.push(format!("an MCP server of {} cannot go by the name {shown:?}", node.name));
                continue;
            };
            let prefix = format!("{}{}{}", tool_name::PREFIX, server.name, tool_name::SEPARATOR);
            for said in server.tools.iter().take(MAX_TOOLS) {
                let there = said.get("name").and_then(Value::as_str).unwrap_or_default();
                let found = match there.strip_prefix(&prefix) {
                    Some(tool) if !tool.is_empty() => {
                        hosted(&host, &slug, tool_name::canonical(&slug, tool), said)
                    }
                    _ => Err("a tool has a name that is not of its server and is left out".to_owned()),
                };
                match found {
                    Ok(spec) => specs.push(spec),
                    Err(why) => warnings.push(format!("of the MCP server {slug} on {}: {why}", node.name)),
                }
            }
            slugs.insert(slug);
        }
    }
    (specs, warnings)
}

/// What a server of a machine goes by: its own name, or one with that of its machine where that is taken.
fn slug_of(server: &HostedServer, node: &NodeEntry, taken: &BTreeSet<String>) -> Option<String> {
    let own = tool_name::slug(&server.name).filter(|slug| *slug == server.name)?;
    let with_node = tool_name::slug(&format!("{own}_{}", node.name));
    let mut names = [Some(own), with_node].into_iter().flatten();
    names.find(|slug| {
        slug != tool_name::RESERVED_SLUG && slug.len() <= tool_name::MAX_SLUG && !taken.contains(slug)
    })
}

#[cfg(test)]
mod tests;
