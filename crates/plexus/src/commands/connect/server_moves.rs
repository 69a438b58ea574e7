//! Moves the agents' own MCP servers behind the hub: imports them there, and removes them from the agents' files with the
//! change that adds the hub's entry. `plexus disconnect` puts them back.
//!
//! A server is imported before it is removed from the agent's file; if the hub already has the same server, such as from an earlier
//! connection, it is only removed. The content of an entry is sent to the hub and stored in the
//! ledger, but not displayed, because it may contain credentials.

use std::collections::BTreeSet;

use plexus_bridge::AgentServers;
use plexus_bridge::agents::{Agent, Scope};
use plexus_proto::ErrorCode;
use plexus_proto::api::{ImportUpstreamsParams, UpstreamImport};
use serde_json::{Value, json};

use super::local_agents::{self, LocalAgents, Questions};
use super::{ConnectArgs, Planned};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::run::token_issuer::has_code;
use crate::commands::upstream::allow::Owner;
use crate::failure::{Exit, Failure};
use crate::output::one_line;

/// The servers of one agent that move, and those that cannot.
#[derive(Default)]
pub(super) struct ServerMoves {
    pub(super) servers: Vec<MovingServer>,
    /// Name, and the reason why it stays.
    pub(super) staying: Vec<(String, String)>,
}

pub(super) struct MovingServer {
    pub(super) name: String,
    entry: Value,
    /// The command that must be allowed first.
    command: Option<String>,
}

impl ServerMoves {
    pub(super) fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }

    /// The commands that the hub may run once the servers have moved, and may not now.
    pub(super) fn new_commands(&self) -> Vec<String> {
        let mut commands: Vec<String> =
            self.servers.iter().filter_map(|server| server.command.clone()).collect();
        commands.sort();
        commands.dedup();
        commands
    }
}

/// Finds the servers that can move, asks the user unless a flag answers, and adds them to the plan.
pub(super) async fn plan(
    planned: &mut [Planned],
    scope: &Scope,
    args: &ConnectArgs,
    local_agents: &LocalAgents,
    (invocation, questions): (&Invocation<'_>, &mut Questions),
) -> anyhow::Result<()> {
    let out = &invocation.out;
    let can_ask = out.can_prompt() && out.terminal() && !args.change.yes && !args.change.dry_run;
    if args.no_move_servers || *scope != Scope::User || !(args.move_servers || can_ask) {
        return Ok(());
    }
    let found = match find(planned, scope, local_agents, invocation).await {
        Ok(found) => found,
        // Without --move-servers, a user who may not add servers is not asked.
        Err(error) if !args.move_servers => {
            tracing::debug!("cannot find the MCP servers of agents: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let names: Vec<String> = planned
        .iter()
        .zip(&found)
        .filter(|(_, moves)| !moves.servers.is_empty())
        .map(|(planned, moves)| format!("{} ({})", planned.agent.name, one_line(&moves.names().join(", "))))
        .collect();
    if !args.move_servers {
        if names.is_empty() {
            return Ok(());
        }
        out.line(&format!("The agents' own MCP servers: {}.", names.join("; ")))?;
        let question =
            "Move them behind the hub, for all agents to use? `plexus disconnect` puts them back. [y/N]";
        if !questions.confirm(out, question).await? {
            return Ok(());
        }
    }
    for (planned, moves) in planned.iter_mut().zip(found) {
        planned.moves = moves;
        apply_to_plan(planned, local_agents)?;
    }
    Ok(())
}

/// The servers of each agent that the hub can import, found by a dry run.
async fn find(
    planned: &[Planned],
    scope: &Scope,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Vec<ServerMoves>> {
    let (hub, owner) = (invocation.hub()?, Owner::of(invocation)?);
    let mut found: Vec<ServerMoves> = Vec::new();
    // Name, entry and document of each server of the agents before.
    let mut seen: Vec<(String, Value, Option<Value>)> = Vec::new();
    for planned in planned {
        let mut moves = ServerMoves::default();
        let is_possible = planned.plan.problems.is_empty();
        let AgentServers { entries, .. } = match is_possible {
            true => local_agents
                .keeper
                .bridge()
                .servers(planned.agent, scope)
                .map_err(|error| local_agents::failure(&error))?,
            false => AgentServers::default(),
        };
        for (name, entry) in entries {
            let import = import(&hub, planned.agent, &name, &entry, true).await?;
            let document = import.added.into_iter().next().map(|added| added.document);
            let skipped = import.skipped.into_iter().next();
            let is_there = skipped.as_ref().is_some_and(|skipped| skipped.exists);
            let (command, why) =
                skipped.map_or((None, None), |skipped| (skipped.command, Some(skipped.reason)));
            let command = command.filter(|_| owner.can_allow());
            if document.is_none() && command.is_none() && !is_there {
                // An entry without a reason is not a server, or is this hub.
                moves.staying.extend(why.map(|why| (name, why)));
                continue;
            }
            let before = seen.iter().find(|(known, ..)| *known == name);
            if before.is_some_and(|(_, other, known)| {
                !is_same((other, known.as_ref()), (&entry, document.as_ref()))
            }) {
                moves.staying.push((name, "another agent has a different server with this name".to_owned()));
                continue;
            }
            if before.is_none() {
                seen.push((name.clone(), entry.clone(), document));
            }
            moves.servers.push(MovingServer { name, entry, command });
        }
        found.push(moves);
    }
    Ok(found)
}

/// Whether two entries are the same server. Documents with masked values are not compared, because those may differ.
fn is_same(one: (&Value, Option<&Value>), other: (&Value, Option<&Value>)) -> bool {
    let is_masked = |document: &Value| document.to_string().contains("[redacted]");
    one.0 == other.0 || (one.1.is_some_and(|document| !is_masked(document)) && one.1 == other.1)
}

/// Replaces the change that adds the hub's entry by one that also removes the servers. A server that cannot be removed
/// unambiguously stays in its file.
fn apply_to_plan(planned: &mut Planned, local_agents: &LocalAgents) -> anyhow::Result<()> {
    let bridge = local_agents.keeper.bridge();
    let Some(change) = planned.plan.changes.iter_mut().find(|change| change.inserts_entry()) else {
        return Ok(());
    };
    let mut removable = Vec::new();
    for server in std::mem::take(&mut planned.moves.servers) {
        match bridge.plan_moving(change, std::slice::from_ref(&server.name)) {
            Ok(_) => removable.push(server),
            Err(error) => planned.moves.staying.push((server.name, error.to_string())),
        }
    }
    planned.moves.servers = removable;
    if !planned.moves.servers.is_empty() {
        let names = planned.moves.names();
        *change = bridge.plan_moving(change, &names).map_err(|error| local_agents::failure(&error))?;
    }
    Ok(())
}

/// Imports the planned servers into the hub, and updates the plan to the servers that it accepted. A server in `imported`
/// came from another agent in this run, and is not imported again.
pub(super) async fn import_planned(
    planned: &mut Planned,
    imported: &mut BTreeSet<String>,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    if planned.moves.servers.is_empty() {
        return Ok(());
    }
    let (hub, owner) = (invocation.hub()?, Owner::of(invocation)?);
    let commands = planned.moves.new_commands();
    if !commands.is_empty() {
        owner.allow(&commands)?;
    }
    let mut importable = Vec::new();
    for server in std::mem::take(&mut planned.moves.servers) {
        if imported.contains(&server.name) {
            importable.push(server);
            continue;
        }
        let import = import(&hub, planned.agent, &server.name, &server.entry, false).await?;
        let skipped = import.skipped.into_iter().next();
        match import.added.is_empty() && !skipped.as_ref().is_some_and(|skipped| skipped.exists) {
            false => {
                imported.insert(server.name.clone());
                importable.push(server);
            }
            true => {
                let why = skipped.map(|skipped| skipped.reason);
                planned
                    .moves
                    .staying
                    .push((server.name, why.unwrap_or_else(|| "the hub did not import it".to_owned())));
            }
        }
    }
    planned.moves.servers = importable;
    let names = planned.moves.names();
    if let Some(change) = planned.plan.changes.iter_mut().find(|change| change.inserts_entry()) {
        *change = local_agents
            .keeper
            .bridge()
            .plan_moving(change, &names)
            .map_err(|error| local_agents::failure(&error))?;
    }
    Ok(())
}

/// Imports one server, in the format of its agent.
async fn import(
    hub: &Hub,
    agent: &Agent,
    name: &str,
    entry: &Value,
    dry_run: bool,
) -> anyhow::Result<UpstreamImport> {
    let servers = Value::Object([(name.to_owned(), entry.clone())].into_iter().collect());
    let content = agent.keys.iter().rev().fold(servers, |inner, key| json!({ *key: inner })).to_string();
    let params = ImportUpstreamsParams { file_name: format!("{}.json", agent.id), content, dry_run };
    let answer = hub.post(&["upstreams", "-", "import"], &params, &[]).await.map_err(|error| {
        if !has_code(&error, ErrorCode::Forbidden) {
            return error;
        }
        Failure::new(Exit::Denied, "only an admin of the hub can move servers behind it")
            .hint("leave out --move-servers, or run this with an admin's token")
            .into()
    })?;
    answer.decode()
}
