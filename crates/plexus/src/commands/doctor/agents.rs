//! Checks that the connected agents can use the hub: starts the entries in their files as the agents would.

use std::time::Duration;

use plexus_bridge::agents::Agent;
use plexus_bridge::{Connection, FileRecord, ManagedPart};
use plexus_kit::{Environment, Supervisor};
use plexus_proto::api::{ExternalAgent, ExternalAgentFileState, UpstreamTest};
use plexus_proto::tool_name;
use plexus_upstream::client::ClientSettings;
use plexus_upstream::config::Folder;
use plexus_upstream::try_out;
use serde_json::{Map, Value, json};

use super::{CheckContext, Finding};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::connect::local_agents::LocalAgents;
use crate::hub_file::Occupant;

const CHECK: &str = "agents";
/// Name of the entry during the trial; servers may not have the name of the hub.
const NAME: &str = "entry";
/// Time limit for an entry to initialize and list its tools.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the started process to exit.
const GRACE: Duration = Duration::from_secs(3);
/// Most tools named in a finding.
const MAX_NAMED: usize = 6;

pub(super) async fn check(context: &CheckContext, invocation: &Invocation<'_>) -> Vec<Finding> {
    let plexus = &context.plexus;
    let local_agents = match LocalAgents::open(invocation) {
        Ok(local_agents) => local_agents,
        Err(error) => {
            return vec![Finding::problem(CHECK, error.to_string(), "pass --data-dir with the data folder")];
        }
    };
    let ledger = match local_agents.keeper.bridge().ledger() {
        Ok(ledger) => ledger,
        Err(error) => return vec![Finding::problem(CHECK, error.to_string(), error.fix())],
    };
    if ledger.connections.is_empty() {
        return vec![Finding::ok(CHECK, format!("none is connected; to connect one: {plexus} connect"))];
    }
    let mut found = Vec::new();
    // The files come first: a missing entry cannot be started.
    let agents = local_agents.keeper.list("local").unwrap_or_default();
    for agent in &agents {
        for file in agent.files.iter().filter(|file| file.state != ExternalAgentFileState::Current) {
            let message = format!("{}: {} is {}", agent.name, file.path, file.state.as_str());
            let fix = file.problem.clone().unwrap_or_else(|| format!("{plexus} connect {}", agent.agent));
            found.push(Finding::warning(CHECK, message, fix));
        }
    }
    for connection in ledger.connections.values() {
        let entries = connection.files.iter().filter_map(|record| entry_of(record, &agents));
        let entries: Vec<_> = entries.collect();
        if entries.is_empty() {
            continue;
        }
        let unreachable = unreachable(connection, &local_agents, invocation).await;
        for entry in entries {
            found.push(
                try_entry(connection, entry, plexus, invocation.environment(), unreachable.as_deref()).await,
            );
        }
    }
    found
}

/// The agent's hub, if it is unreachable; the proxy then answers with its cached list.
async fn unreachable(
    connection: &Connection,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> Option<String> {
    let Some(named) = &connection.hub else {
        let runs = matches!(Occupant::of(&local_agents.data_dir), Ok(Occupant::Hub(_)));
        return (!runs).then(|| format!("the hub of {}", local_agents.data_dir.display()));
    };
    let grant = local_agents.keeper.grants().read(&connection.agent).ok().flatten();
    let hub = grant.and_then(|grant| Hub::new(invocation.grant_target(&grant).ok()?).ok());
    let responds = match hub {
        Some(hub) => hub.probe("/healthz").await.is_ok_and(|alive| alive.ok),
        None => false,
    };
    (!responds).then(|| format!("the hub at {named}"))
}

/// The hub's entry, if the agent's file contains it unchanged. A changed entry, or one from a repository, is not started,
/// because the agent would ask the user first.
fn entry_of<'r>(record: &'r FileRecord, agents: &[ExternalAgent]) -> Option<&'r Map<String, Value>> {
    let ManagedPart::Entry { ours: Value::Object(ours), .. } = &record.part else { return None };
    let path = record.path.display().to_string();
    let mut files = agents.iter().flat_map(|agent| &agent.files);
    let is_current = files.any(|file| file.path == path && file.state == ExternalAgentFileState::Current);
    is_current.then_some(ours)
}

async fn try_entry(
    connection: &Connection,
    entry: &Map<String, Value>,
    plexus: &str,
    environment: &Environment,
    unreachable: Option<&str>,
) -> Finding {
    let name = Agent::by_name(&connection.agent).map_or(connection.agent.as_str(), |agent| agent.name);
    let again = format!("{plexus} connect {}", connection.agent);
    let Some((program, args, variables)) = command(entry) else {
        return Finding::problem(CHECK, format!("{name}: its entry has no command"), again);
    };
    let document = json!({ "command": program, "args": args, "env": variables });
    let server = match Folder::new(std::env::temp_dir(), environment.clone()).check(NAME, &document) {
        Ok(server) => server,
        Err(problems) => {
            let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Finding::problem(CHECK, format!("{name}: {}", why.join("; ")), again);
        }
    };
    let supervisor = Supervisor::new();
    let settings = ClientSettings { connect_timeout: TIMEOUT, ..ClientSettings::default() };
    let UpstreamTest { success, tools, error, stderr, elapsed_ms, .. } =
        try_out(server, environment, &supervisor, settings).await;
    supervisor.shutdown(GRACE).await;
    let words = std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ");
    if !success {
        let why = error.unwrap_or_else(|| stderr.last().cloned().unwrap_or_default());
        return Finding::problem(CHECK, format!("{name}: `{words}` does not work: {why}"), again);
    }
    if let Some(hub) = unreachable.filter(|_| tools.is_empty()) {
        let message =
            format!("{name}: {hub} is not reachable, and the proxy has no cached list of tools yet");
        return Finding::warning(CHECK, message, "start the hub; until then the agent has no tools");
    }
    if tools.is_empty() {
        let message = format!("{name}: `{words}` works but lists no tools");
        return Finding::warning(CHECK, message, "start the hub, or give the agent a profile with tools");
    }
    // The hub's names, without the prefix of the trial.
    let prefix = format!("{}{NAME}{}", tool_name::PREFIX, tool_name::SEPARATOR);
    let named: Vec<&str> =
        tools.iter().map(|tool| tool.strip_prefix(&prefix).unwrap_or(tool)).take(MAX_NAMED).collect();
    let more = match tools.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let tools = format!("{} tools in {elapsed_ms} ms: {}{more}", tools.len(), named.join(", "));
    match unreachable {
        None => Finding::ok(CHECK, format!("{name}: {tools}")),
        Some(hub) => {
            let message =
                format!("{name}: {hub} is not reachable; the proxy answers with a cached list: {tools}");
            Finding::warning(CHECK, message, "start the hub; until then calls fail and writes are queued")
        }
    }
}

/// The program, its arguments and its variables, in any agent's format.
fn command(entry: &Map<String, Value>) -> Option<(String, Vec<String>, Value)> {
    let words = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (program, args) = match entry.get("command").or_else(|| entry.get("cmd"))? {
        Value::String(program) => (program.clone(), words(entry.get("args"))),
        all @ Value::Array(_) => {
            let mut all = words(Some(all));
            if all.is_empty() {
                return None;
            }
            (all.remove(0), all)
        }
        _ => return None,
    };
    let variables = ["env", "environment", "envs"].iter().find_map(|key| entry.get(*key)).cloned();
    Some((program, args, variables.unwrap_or_else(|| json!({}))))
}
