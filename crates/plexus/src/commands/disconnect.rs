//! `plexus disconnect`: removes everything that `plexus connect` has written into the agents' files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use plexus_bridge::agents::Scope;
use plexus_bridge::{Bridge, Plan, RemovedConnection};
use plexus_kit::allowed_commands;
use plexus_proto::api::RemovedExternalAgent;
use serde_json::{Value, json};

use super::Invocation;
use super::connect::local_agents::{self, LocalAgents};
use super::connect::{ChangeArgs, agent_named, display, grant, scope};
use crate::failure::{Exit, Failure};
use crate::output::{Output, one_line};
use crate::shell;

const AFTER_HELP: &str = "\
A file that was not changed since is restored byte by byte; from any other file, only the text
that Plexus wrote is removed. MCP servers that moved behind the hub are put back into the agents'
settings; the hub keeps them until `plexus upstream remove`. The agents' tokens are revoked.

Examples:
  plexus disconnect codex
  plexus disconnect --yes            # all of them";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DisconnectArgs {
    /// Agents to disconnect [default: all that are connected]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// A connection and the plan to remove it.
struct Planned {
    key: String,
    agent: String,
    plan: Plan,
}

pub(crate) async fn run(args: DisconnectArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, local_agents) = (&invocation.out, LocalAgents::open(invocation)?);
    let planned = plan(&args, &local_agents, invocation)?;
    if planned.is_empty() {
        match out.json() {
            true => out.json_line(&json!({ "agents": [] }).to_string())?,
            false => out.note("No agent is connected; nothing was changed."),
        }
        return Ok(Exit::Ok.into());
    }
    if !out.json() {
        for Planned { key, plan, .. } in &planned {
            out.line(key)?;
            plan.problems.iter().try_for_each(|problem| display::print_problem(out, problem))?;
            plan.changes.iter().try_for_each(|change| display::print_change(out, change))?;
        }
    }
    if args.change.dry_run {
        let failed = planned.iter().any(|planned| !planned.plan.problems.is_empty());
        match out.json() {
            true => {
                let agents: Vec<Value> = planned.iter().map(plan_json).collect();
                out.json_line(&json!({ "agents": agents }).to_string())?;
            }
            false => out.note("Nothing was changed: this was a dry run."),
        }
        return Ok(if failed { Exit::Failed } else { Exit::Ok }.into());
    }
    if !args.change.yes && !local_agents::confirm(out, "Remove the connection?").await? {
        out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    let _lock = local_agents.lock()?;
    let (mut all, mut done) = (true, Vec::new());
    for Planned { key, agent, plan } in planned {
        let printed = plan.problems.len();
        let back: Vec<String> = plan.changes.iter().flat_map(|change| change.servers.clone()).collect();
        let grant = local_agents.keeper.grants().read(&agent).unwrap_or_default();
        let removed = match local_agents.keeper.disconnect(&key, plan) {
            Ok(removed) => removed,
            // Continue with the other connections.
            Err(error) => RemovedConnection { problems: vec![error], ..RemovedConnection::default() },
        };
        all &= removed.is_complete;
        if let Some(grant) = grant.filter(|_| !removed.tokens.is_empty()) {
            grant::revoke(&grant, &agent, invocation).await;
        }
        if !out.json() {
            print_removed(out, &key, &removed, printed)?;
            if removed.is_complete && !back.is_empty() {
                print_moved_back(out, &back, &local_agents.data_dir)?;
            }
        }
        done.push(json!({ "key": key, "removed": RemovedExternalAgent::from(&removed) }));
    }
    if out.json() {
        out.json_line(&json!({ "agents": done }).to_string())?;
    }
    Ok(if all { Exit::Ok } else { Exit::Failed }.into())
}

fn plan(
    args: &DisconnectArgs,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Vec<Planned>> {
    let bridge = local_agents.keeper.bridge();
    let ledger = bridge.ledger().map_err(|error| local_agents::failure(&error))?;
    let named = args.agents.iter().map(|name| agent_named(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let only = args
        .change
        .project
        .as_deref()
        .map(|folder| scope(Some(folder), invocation.environment()))
        .transpose()?;
    let of_project = |project: &Option<PathBuf>| match &only {
        None => true,
        Some(Scope::Project(folder)) => project.as_ref() == Some(folder),
        Some(Scope::User) => project.is_none(),
    };
    let is_named = |agent: &str| named.is_empty() || named.iter().any(|named| named.id == agent);
    let selected: Vec<(&String, &str)> = ledger
        .connections
        .iter()
        .filter(|(_, connection)| is_named(&connection.agent) && of_project(&connection.project))
        .map(|(key, connection)| (key, connection.agent.as_str()))
        .collect();
    if let Some(missing) = named.iter().find(|named| !selected.iter().any(|(_, agent)| *agent == named.id)) {
        let known: Vec<&str> = ledger.connections.keys().map(String::as_str).collect();
        let hint = match known.as_slice() {
            [] => "nothing is connected on this machine".to_owned(),
            known => format!("connected: {}", known.join(", ")),
        };
        let message = format!("{} is not connected", missing.name);
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let plan = |bridge: &Bridge, key: &str| {
        bridge.plan_disconnect(key, args.change.policy.into()).map_err(|error| local_agents::failure(&error))
    };
    selected
        .into_iter()
        .map(|(key, agent)| {
            Ok(Planned { key: key.clone(), agent: agent.to_owned(), plan: plan(bridge, key)? })
        })
        .collect()
}

/// Says which servers are back in the agent's settings, and what the hub keeps of them.
fn print_moved_back(out: &Output, names: &[String], data_dir: &Path) -> anyhow::Result<()> {
    out.line(&format!("  Back in its settings: {}.", names.join(", ")))?;
    let commands: Vec<String> =
        names.iter().map(|name| format!("plexus upstream remove {}", shell::name(&one_line(name)))).collect();
    out.line(&format!("  Still on the hub as well. To remove from there: {}", commands.join("; ")))?;
    if allowed_commands::read(data_dir).is_ok_and(|allowed| !allowed.is_empty()) {
        let file = data_dir.join(allowed_commands::FILE);
        out.line(&format!("  Commands allowed for such servers stay allowed, in {}.", file.display()))?;
    }
    Ok(())
}

fn plan_json(planned: &Planned) -> Value {
    json!({
        "key": planned.key,
        "files": planned.plan.changes.iter().map(display::change_json).collect::<Vec<_>>(),
        "problems": planned.plan.problems.iter().map(display::problem_json).collect::<Vec<_>>(),
    })
}

fn print_removed(out: &Output, key: &str, removed: &RemovedConnection, printed: usize) -> anyhow::Result<()> {
    removed.problems.iter().skip(printed).try_for_each(|problem| display::print_problem(out, problem))?;
    out.line(&match removed.is_complete {
        true => format!("{key} is disconnected."),
        false => format!("{key} is only partly disconnected; see the problems above."),
    })
}
