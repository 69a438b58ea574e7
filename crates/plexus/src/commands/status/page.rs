//! The content of `plexus status`, and its JSON form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plexus_proto::Timestamp;
use plexus_proto::api::{AuditCall, Node, NodeState, Status, Token, TokenKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{self, Hub};
use crate::commands::connect::local_agents::LocalAgents;
use crate::commands::outbox::agent_outboxes::AgentOutboxes;
use crate::commands::{FolderHub, Invocation, is_used};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::one_line;
use crate::shell;

/// Maximum number of items to read per list.
const MAX_ITEMS: usize = 200;
/// For this time after the hub has started, an offline node is not a problem: it may still be reconnecting.
const RECONNECT_SECONDS: u64 = 30;
/// Number of failed calls to show.
const MAX_FAILURES: usize = 5;

/// The content of `plexus status`.
pub(super) struct StatusPage {
    pub(super) hub: HubState,
    /// `None` if the token may not read them or no hub answers; the same applies to `nodes` and `failures`.
    pub(super) agents: Option<Vec<AgentRow>>,
    pub(super) nodes: Option<Vec<Node>>,
    pub(super) failures: Option<Vec<AuditCall>>,
    /// `None` if the outboxes on this machine cannot be read.
    pub(super) outbox: Option<QueuedWrites>,
    pub(super) problems: Vec<Problem>,
}

/// Whether the hub answers, and what it reports.
pub(super) enum HubState {
    Up { url: String, folder: Option<PathBuf>, health: String, status: Box<Status>, raw: Value },
    Down { folder: PathBuf, failure: Failure },
}

#[derive(Debug, Serialize)]
pub(super) struct AgentRow {
    pub(super) name: String,
    /// Whether `plexus connect` has connected it on this machine.
    pub(super) connected_here: bool,
    pub(super) last_seen_at: Option<Timestamp>,
}

/// Counts of the outboxes on this machine.
#[derive(Debug, Default, Serialize)]
pub(super) struct QueuedWrites {
    pub(super) waiting: u64,
    pub(super) dead: u64,
    pub(super) oldest_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) fix: String,
}

impl HubState {
    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }

    pub(super) fn url(&self) -> Option<&str> {
        match self {
            Self::Up { url, .. } => Some(url),
            Self::Down { .. } => None,
        }
    }

    /// The data folder: the inspected one, or the one that a remote hub reports.
    pub(super) fn data_dir(&self) -> Option<String> {
        match self {
            Self::Up { folder: None, status, .. } if !status.data_dir.is_empty() => {
                Some(format!("{} on the hub's machine", status.data_dir))
            }
            Self::Up { folder, .. } => folder.as_ref().map(|folder| folder.display().to_string()),
            Self::Down { folder, .. } => Some(folder.display().to_string()),
        }
    }
}

impl StatusPage {
    /// Collects the content. Fails if a hub answers but refuses to return its status.
    pub(super) async fn gather(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        let mut problems = Vec::new();
        let (hub, state) = match invocation.hub_of_folder()? {
            FolderHub::Named(hub) | FolderHub::Default(hub) => query(hub, None).await?,
            FolderHub::Runs { hub, folder } => query(hub, Some(folder)).await?,
            FolderHub::Unready { folder, pid } => (None, unready(folder, pid)),
            FolderHub::Down { folder } => (None, down(folder, invocation)),
        };
        if let HubState::Down { failure, .. } = &state {
            problems.push(Problem {
                what: failure.message.clone(),
                fix: failure.hint.clone().unwrap_or_default(),
            });
        }
        let mut page = Self { hub: state, agents: None, nodes: None, failures: None, outbox: None, problems };
        if let Some(hub) = hub {
            let tokens: Option<Vec<Token>> = list(&hub, "tokens", &[], MAX_ITEMS).await;
            page.agents = tokens.map(|tokens| agents(&tokens, invocation));
            page.nodes = list(&hub, "nodes", &[], MAX_ITEMS).await;
            let failed = [("failed", Some("true".to_owned()))];
            page.failures = list(&hub, "audit", &failed, MAX_FAILURES).await;
        }
        page.outbox = match queued_writes(invocation).await {
            Ok(queued) => Some(queued),
            Err(error) => {
                let what = format!("cannot read the outboxes on this machine: {error:#}");
                page.problems.push(Problem { what, fix: "plexus doctor".to_owned() });
                None
            }
        };
        page.find_problems();
        Ok(page)
    }

    fn find_problems(&mut self) {
        let mut found = Vec::new();
        let mut add = |what: String, fix: &str| found.push(Problem { what, fix: fix.to_owned() });
        // After a start of the hub, all nodes reconnect, including its own.
        let mut settled = false;
        if let HubState::Up { health, status, .. } = &self.hub {
            settled = status.uptime_seconds >= RECONNECT_SECONDS;
            if health != READY {
                add(format!("the hub is {health}"), "plexus doctor");
            }
            if !status.audit.intact_at_start {
                add(
                    "the audit chain did not match its signed head when the hub started".to_owned(),
                    "plexus audit verify",
                );
            }
            let own = env!("CARGO_PKG_VERSION");
            if status.version != own {
                let what = format!("the hub has version {}, this program {own}", status.version);
                add(what, "restart the hub with this version, or install the hub's version here");
            }
            let servers = &status.upstreams;
            let broken = servers.down + servers.failed + servers.invalid + servers.needs_login;
            if broken > 0 {
                add(format!("MCP servers that do not work: {broken}"), "plexus upstream list");
            }
            if servers.quarantined > 0 {
                add(format!("tools in quarantine: {}", servers.quarantined), "plexus upstream list");
            }
            if status.broken_tools > 0 {
                add(format!("broken custom tools: {}", status.broken_tools), "plexus tools list --defined");
            }
        }
        let is_unreachable = |node: &&Node| matches!(node.state, NodeState::Offline | NodeState::Unwell);
        for node in self.nodes.iter().flatten().filter(|_| settled).filter(is_unreachable) {
            let why = node.problem.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let fix = format!("plexus node show {}", shell::name(&one_line(&node.name)));
            add(format!("the node {} does not answer{why}", node.name), &fix);
        }
        if let Some(queued) = self.outbox.as_ref().filter(|queued| queued.dead > 0) {
            add(format!("dead letters: {}", queued.dead), "plexus outbox list --dead");
        }
        self.problems.append(&mut found);
    }

    pub(super) fn has_broken_audit_chain(&self) -> bool {
        matches!(&self.hub, HubState::Up { status, .. } if !status.audit.intact_at_start)
    }

    /// One object, which has the same keys whether a hub answers or not. Without one, the values of the hub are null.
    pub(super) fn to_json(&self) -> anyhow::Result<Value> {
        let mut page = match &self.hub {
            HubState::Up { raw, .. } => raw.clone(),
            HubState::Down { .. } => STATUS_KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect(),
        };
        let (folder, health) = match &self.hub {
            HubState::Up { folder, health, .. } => (folder.as_ref(), Some(health)),
            HubState::Down { folder, .. } => (Some(folder), None),
        };
        page["running"] = self.hub.is_up().into();
        page["url"] = json!(self.hub.url());
        page["health"] = json!(health);
        // A folder inspected on this machine replaces the value that the hub reports.
        if let Some(folder) = folder {
            page["data_dir"] = json!(folder);
        }
        page["agents"] = json!(self.agents);
        page["nodes"] = json!(self.nodes);
        page["outbox"] = json!(self.outbox);
        page["failures"] = json!(self.failures);
        page["problems"] = serde_json::to_value(&self.problems)?;
        Ok(page)
    }

    /// The error of the command if no hub answers.
    pub(super) fn into_failure(self) -> Option<Failure> {
        match self.hub {
            HubState::Up { .. } => None,
            HubState::Down { failure, .. } => Some(failure),
        }
    }
}

/// The keys of [`Status`].
const STATUS_KEYS: [&str; 15] = [
    "version",
    "instance_id",
    "started_at",
    "uptime_seconds",
    "database",
    "database_location",
    "store_id",
    "data_dir",
    "durability",
    "tools",
    "broken_tools",
    "upstreams",
    "mcp_sessions",
    "calls_in_flight",
    "audit",
];

const READY: &str = "ready";

/// Queries the hub. Fails if the hub refuses the request, or if the user named it and it does not answer. The hub of a
/// folder is down if it does not answer.
async fn query(hub: Hub, folder: Option<PathBuf>) -> anyhow::Result<(Option<Hub>, HubState)> {
    let response = match hub.get(&["status"], &[]).await {
        Ok(response) => response,
        Err(error) => {
            let failure = error.downcast::<Failure>()?;
            return match folder {
                Some(folder) if failure.exit == Exit::Unreachable => {
                    Ok((None, HubState::Down { folder, failure }))
                }
                _ => Err(failure.into()),
            };
        }
    };
    let health = match hub.probe("/readyz").await {
        Ok(ready) if ready.ok => READY.to_owned(),
        Ok(ready) => format!("not ready: {}", ready.body.trim()),
        Err(error) => format!("not ready: {error}"),
    };
    let state = HubState::Up {
        url: hub.url().to_owned(),
        folder,
        health,
        status: Box::new(response.decode()?),
        raw: serde_json::from_str(response.raw().get())?,
    };
    Ok((Some(hub), state))
}

fn down(folder: PathBuf, invocation: &Invocation<'_>) -> HubState {
    let shown = folder.display();
    let message = match is_used(&folder) {
        true => format!("no hub runs on the data folder {shown}, which contains the data of a hub"),
        false => format!("no hub runs on the data folder {shown}, and none has been started there yet"),
    };
    let hint = format!(
        "start it with `{} up{}`, or name a running hub with --hub",
        shell::plexus(invocation.environment()),
        data_dir_flag(&folder, invocation)
    );
    HubState::Down { failure: Failure::new(Exit::Unreachable, message).hint(hint), folder }
}

/// The `--data-dir` flag, if it was given.
fn data_dir_flag(folder: &Path, invocation: &Invocation<'_>) -> String {
    match invocation.data_dir() {
        Some(_) => format!(" --data-dir {}", shell::word(folder)),
        None => String::new(),
    }
}

fn unready(folder: PathBuf, pid: Option<i32>) -> HubState {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let message = format!(
        "the data folder {} is locked by a process that accepts no requests{process}",
        folder.display()
    );
    let mut failure = Failure::new(Exit::Unreachable, message)
        .hint("it may be a hub that is starting, or a `plexus db` command: try again later");
    failure.retryable = true;
    HubState::Down { folder, failure }
}

/// Reads a list; `None` if the token may not read it.
async fn list<T: DeserializeOwned>(
    hub: &Hub,
    resource: &str,
    filters: &[client::Param<'_>],
    limit: usize,
) -> Option<Vec<T>> {
    let args = ListArgs { limit, cursor: None };
    let page = listing::fetch(hub, &[resource], filters, &args, |_| true).await.ok()?;
    page.items.iter().map(|item| client::decode(item).ok()).collect()
}

/// Agents that have a valid token or are connected on this machine.
fn agents(tokens: &[Token], invocation: &Invocation<'_>) -> Vec<AgentRow> {
    let now = invocation.out.now();
    let mut seen: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
    for token in tokens.iter().filter(|token| token.kind == TokenKind::Agent && token.state(now).is_alive()) {
        let last = seen.entry(token.name.clone()).or_default();
        *last = (*last).max(token.last_used_at);
    }
    let ledger = LocalAgents::open(invocation)
        .ok()
        .and_then(|local_agents| local_agents.keeper.bridge().ledger().ok());
    let connected: Vec<String> = ledger.map_or_else(Vec::new, |ledger| {
        ledger.connections.into_values().map(|connection| connection.agent).collect()
    });
    for agent in &connected {
        seen.entry(agent.clone()).or_default();
    }
    let row = |(name, last_seen_at): (String, Option<Timestamp>)| {
        let connected_here = connected.contains(&name);
        AgentRow { name, connected_here, last_seen_at }
    };
    seen.into_iter().map(row).collect()
}

async fn queued_writes(invocation: &Invocation<'_>) -> anyhow::Result<QueuedWrites> {
    let outboxes = AgentOutboxes::open(None, invocation).await?;
    let mut queued = QueuedWrites::default();
    for agent in outboxes.iter() {
        let counts = agent.outbox.counts().await?;
        queued.waiting += counts.pending;
        queued.dead += counts.dead;
        queued.oldest_at = queued.oldest_at.into_iter().chain(counts.oldest).min();
    }
    outboxes.close().await;
    Ok(queued)
}

#[cfg(test)]
mod tests;
