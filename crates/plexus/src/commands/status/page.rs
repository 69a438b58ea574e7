//! What is on the page, and its form for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plexus_proto::Timestamp;
use plexus_proto::api::{AuditCall, Node, NodeState, Status, Token, TokenKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{self, Hub};
use crate::commands::connect::local_agents::LocalAgents;
use crate::commands::outbox::folders::Boxes;
use crate::commands::{FolderHub, Invocation, is_used};
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::one_line;
use crate::shell;

/// Items of a list that are read.
const MOST: usize = 200;
/// How long nodes have to link to a hub that has started, before one that is offline is a problem.
const LINKING_SECONDS: u64 = 30;
/// Failed calls that are shown.
const FAILURES: usize = 5;

pub(super) struct Page {
    pub(super) hub: HubPart,
    /// None where the token may not read them, or no hub answers; so with the next two.
    pub(super) agents: Option<Vec<AgentRow>>,
    pub(super) nodes: Option<Vec<Node>>,
    pub(super) failures: Option<Vec<AuditCall>>,
    /// None where the outboxes of this machine cannot be read.
    pub(super) outbox: Option<Queued>,
    pub(super) problems: Vec<Problem>,
}

pub(super) enum HubPart {
    Answers {
        url: String,
        folder: Option<PathBuf>,
        health: String,
        status: Box<Status>,
        raw: Value,
    },
    /// With what a person is told of it.
    Down {
        folder: PathBuf,
        failure: Failure,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct AgentRow {
    pub(super) name: String,
    /// By `plexus connect`, on this machine.
    pub(super) connected_here: bool,
    pub(super) last_seen_at: Option<Timestamp>,
}

/// Writes in the outboxes of this machine's agents.
#[derive(Debug, Default, Serialize)]
pub(super) struct Queued {
    pub(super) waiting: u64,
    pub(super) dead: u64,
    pub(super) oldest_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) fix: String,
}

impl HubPart {
    pub(super) fn answers(&self) -> bool {
        matches!(self, Self::Answers { .. })
    }

    pub(super) fn url(&self) -> Option<&str> {
        match self {
            Self::Answers { url, .. } => Some(url),
            Self::Down { .. } => None,
        }
    }

    /// Of the hub as it says itself, else the folder that was looked at.
    pub(super) fn data_dir(&self) -> Option<String> {
        match self {
            Self::Answers { folder: None, status, .. } if !status.data_dir.is_empty() => {
                Some(format!("{} on the hub's machine", status.data_dir))
            }
            Self::Answers { folder, .. } => folder.as_ref().map(|folder| folder.display().to_string()),
            Self::Down { folder, .. } => Some(folder.display().to_string()),
        }
    }
}

impl Page {
    /// Fails where a hub that answers refuses to tell its status.
    pub(super) async fn gather(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        let mut problems = Vec::new();
        let (hub, part) = match invocation.hub_of_folder()? {
            FolderHub::Named(hub) | FolderHub::Default(hub) => answering(hub, None).await?,
            FolderHub::Runs { hub, folder } => answering(hub, Some(folder)).await?,
            FolderHub::Unready { folder, pid } => (None, unready(folder, pid)),
            FolderHub::Down { folder } => (None, down(folder, invocation)),
        };
        if let HubPart::Down { failure, .. } = &part {
            problems.push(Problem {
                what: failure.message.clone(),
                fix: failure.hint.clone().unwrap_or_default(),
            });
        }
        let mut page = Self { hub: part, agents: None, nodes: None, failures: None, outbox: None, problems };
        if let Some(hub) = hub {
            let tokens: Option<Vec<Token>> = list(&hub, "tokens", &[], MOST).await;
            page.agents = tokens.map(|tokens| agents(&tokens, invocation));
            page.nodes = list(&hub, "nodes", &[], MOST).await;
            let failed = [("failed", Some("true".to_owned()))];
            page.failures = list(&hub, "audit", &failed, FAILURES).await;
        }
        page.outbox = match queued(invocation).await {
            Ok(queued) => Some(queued),
            Err(error) => {
                let what = format!("the outboxes of this machine cannot be read: {error:#}");
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
        // Nodes, the hub's own machine too, link again after a start.
        let mut settled = false;
        if let HubPart::Answers { health, status, .. } = &self.hub {
            settled = status.uptime_seconds >= LINKING_SECONDS;
            if health != READY {
                add(format!("the hub is {health}"), "plexus doctor");
            }
            if !status.audit.intact_at_start {
                add("the audit did not match its signed head".to_owned(), "plexus audit verify");
            }
            let own = env!("CARGO_PKG_VERSION");
            if status.version != own {
                let what = format!("the hub is version {}, this program {own}", status.version);
                add(what, "restart the hub with this program, or install its version here");
            }
            let servers = &status.upstreams;
            let unwell = servers.down + servers.failed + servers.invalid + servers.needs_login;
            if unwell > 0 {
                add(format!("MCP servers that do not work: {unwell}"), "plexus upstream list");
            }
            if servers.quarantined > 0 {
                add(format!("tools in quarantine: {}", servers.quarantined), "plexus upstream list");
            }
            if status.broken_tools > 0 {
                add(
                    format!("broken tools of your own: {}", status.broken_tools),
                    "plexus tools list --defined",
                );
            }
        }
        let away = |node: &&Node| matches!(node.state, NodeState::Offline | NodeState::Unwell);
        for node in self.nodes.iter().flatten().filter(|_| settled).filter(away) {
            let why = node.problem.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let fix = format!("plexus node show {}", shell::name(&one_line(&node.name)));
            add(format!("the node {} does not answer{why}", node.name), &fix);
        }
        if let Some(queued) = self.outbox.as_ref().filter(|queued| queued.dead > 0) {
            add(format!("dead letters: {}", queued.dead), "plexus outbox list --dead");
        }
        self.problems.append(&mut found);
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(&self.hub, HubPart::Answers { status, .. } if !status.audit.intact_at_start)
    }

    /// One object with the same keys whether a hub answers or not; what the hub says of itself is null without one.
    pub(super) fn to_json(&self) -> anyhow::Result<Value> {
        let mut page = match &self.hub {
            HubPart::Answers { raw, .. } => raw.clone(),
            HubPart::Down { .. } => STATUS_KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect(),
        };
        let (folder, health) = match &self.hub {
            HubPart::Answers { folder, health, .. } => (folder.as_ref(), Some(health)),
            HubPart::Down { folder, .. } => (Some(folder), None),
        };
        page["running"] = self.hub.answers().into();
        page["url"] = json!(self.hub.url());
        page["health"] = json!(health);
        // What the hub says of itself, unless the folder was looked at here.
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

    /// How the command ends where no hub answers.
    pub(super) fn into_failure(self) -> Option<Failure> {
        match self.hub {
            HubPart::Answers { .. } => None,
            HubPart::Down { failure, .. } => Some(failure),
        }
    }
}

/// What [`Status`] has.
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

/// A hub that was named and does not answer is an error, and so is one that refuses; the one of a folder is down.
async fn answering(hub: Hub, folder: Option<PathBuf>) -> anyhow::Result<(Option<Hub>, HubPart)> {
    let answer = match hub.get(&["status"], &[]).await {
        Ok(answer) => answer,
        Err(error) => {
            let failure = error.downcast::<Failure>()?;
            return match folder {
                Some(folder) if failure.exit == Exit::Unreachable => {
                    Ok((None, HubPart::Down { folder, failure }))
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
    let part = HubPart::Answers {
        url: hub.url().to_owned(),
        folder,
        health,
        status: Box::new(answer.decode()?),
        raw: serde_json::from_str(answer.raw().get())?,
    };
    Ok((Some(hub), part))
}

fn down(folder: PathBuf, invocation: &Invocation<'_>) -> HubPart {
    let shown = folder.display();
    let message = match is_used(&folder) {
        true => format!("no hub runs on the data folder {shown}, which has the data of one"),
        false => format!("no hub runs on {shown}, and none has been started there yet"),
    };
    let hint = format!(
        "start it with `{} up{}`, or name a running one with --hub",
        shell::plexus(invocation.environment()),
        flag(&folder, invocation)
    );
    HubPart::Down { failure: Failure::new(Exit::Unreachable, message).hint(hint), folder }
}

/// How the folder is named on the command line, where it was.
fn flag(folder: &Path, invocation: &Invocation<'_>) -> String {
    match invocation.data_dir() {
        Some(_) => format!(" --data-dir {}", shell::word(folder)),
        None => String::new(),
    }
}

fn unready(folder: PathBuf, pid: Option<i32>) -> HubPart {
    let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let message =
        format!("the data folder {} is held by a process that takes no requests{process}", folder.display());
    let mut failure = Failure::new(Exit::Unreachable, message)
        .hint("a hub that starts, or a `plexus db` command: try again when it is done");
    failure.retryable = true;
    HubPart::Down { folder, failure }
}

/// None where the token may not read the list.
async fn list<T: DeserializeOwned>(
    hub: &Hub,
    what: &str,
    filters: &[client::Param<'_>],
    limit: usize,
) -> Option<Vec<T>> {
    let args = ListArgs { limit, cursor: None };
    let page = listing::fetch(hub, &[what], filters, &args, |_| true).await.ok()?;
    page.items.iter().map(|item| client::decode(item).ok()).collect()
}

/// Agents that have a token, and those that are connected on this machine.
fn agents(tokens: &[Token], invocation: &Invocation<'_>) -> Vec<AgentRow> {
    let now = invocation.out.now();
    let mut seen: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
    for token in tokens.iter().filter(|token| token.kind == TokenKind::Agent && token.state(now).is_alive()) {
        let last = seen.entry(token.name.clone()).or_default();
        *last = (*last).max(token.last_used_at);
    }
    let ledger = LocalAgents::open(invocation).ok().and_then(|desk| desk.keeper.bridge().ledger().ok());
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

async fn queued(invocation: &Invocation<'_>) -> anyhow::Result<Queued> {
    let boxes = Boxes::open(None, invocation).await?;
    let mut queued = Queued::default();
    for one in boxes.iter() {
        let counts = one.outbox.counts().await?;
        queued.waiting += counts.pending;
        queued.dead += counts.dead;
        queued.oldest_at = queued.oldest_at.into_iter().chain(counts.oldest).min();
    }
    boxes.close().await;
    Ok(queued)
}
