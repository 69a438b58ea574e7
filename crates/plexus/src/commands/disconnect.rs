//! `plexus disconnect`: everything that `plexus connect` has put into files of agents is taken out again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plexus_bridge::agents::Scope;
use plexus_bridge::{Bridge, Plan, Removed};
use plexus_proto::api::RemovedExternalAgent;
use serde_json::{Value, json};

use super::Invocation;
use super::connect::desk::{self, Desk};
use super::connect::{PolicyArg, grant, known, scope, shown};
use crate::failure::{Exit, Failure};
use crate::output::Output;

const AFTER_HELP: &str = "\
A file that nobody has changed since is put back byte by byte; from one that somebody has, only
what is ours is taken. MCP servers that were moved behind the hub are put back. The agents'
tokens are revoked.

Examples:
  plexus disconnect codex
  plexus disconnect --yes            # all of them";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DisconnectArgs {
    /// Agents to disconnect [default: all that are connected]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Only what was connected for the project in this folder
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Write without asking
    #[arg(long, short = 'y')]
    yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where somebody has changed what is ours: skip leaves it, replace takes it out all the same
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    policy: PolicyArg,
}

/// A connection and what taking it out would do.
struct Planned {
    key: String,
    agent: String,
    plan: Plan,
}

pub(crate) async fn run(args: DisconnectArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, desk) = (&invocation.out, Desk::open(invocation)?);
    let planned = plan(&args, &desk, invocation)?;
    if planned.is_empty() {
        match out.json() {
            true => out.json_line(&json!({ "agents": [] }).to_string())?,
            false => out.note("No agent is connected, and nothing was changed."),
        }
        return Ok(Exit::Ok.into());
    }
    if !out.json() {
        for Planned { key, plan, .. } in &planned {
            out.line(key)?;
            plan.problems.iter().try_for_each(|problem| shown::problem(out, problem))?;
            plan.changes.iter().try_for_each(|change| shown::change(out, change))?;
        }
    }
    if args.dry_run {
        let failed = planned.iter().any(|planned| !planned.plan.problems.is_empty());
        match out.json() {
            true => {
                let agents: Vec<Value> = planned.iter().map(told).collect();
                out.json_line(&json!({ "agents": agents }).to_string())?;
            }
            false => out.note("Nothing was changed: this was a dry run."),
        }
        return Ok(if failed { Exit::Failed } else { Exit::Ok }.into());
    }
    if !args.yes && !desk::confirmed(out, "Take it out?").await? {
        out.note("Nothing was changed.");
        return Ok(Exit::Ok.into());
    }
    let _turn = desk.turn()?;
    let (mut all, mut done) = (true, Vec::new());
    for Planned { key, agent, plan } in planned {
        let shown = plan.problems.len();
        let back: Vec<String> = plan.changes.iter().flat_map(|change| change.servers.clone()).collect();
        let grant = desk.keeper.grants().read(&agent).unwrap_or_default();
        let removed = match desk.keeper.carry_out(&key, plan) {
            Ok(removed) => removed,
            // The others can be taken out all the same.
            Err(error) => Removed { problems: vec![error], ..Removed::default() },
        };
        all &= removed.gone;
        if let Some(grant) = grant.filter(|_| !removed.tokens.is_empty()) {
            grant::revoke(&grant, &agent, invocation).await;
        }
        if !out.json() {
            tell(out, &key, &removed, shown)?;
            if removed.gone && !back.is_empty() {
                let names = back.join(", ");
                out.line(&format!("  Back in its settings: {names}. They stay behind the hub until `plexus upstream remove`."))?;
            }
        }
        done.push(json!({ "key": key, "removed": RemovedExternalAgent::from(&removed) }));
    }
    if out.json() {
        out.json_line(&json!({ "agents": done }).to_string())?;
    }
    Ok(if all { Exit::Ok } else { Exit::Failed }.into())
}

fn plan(args: &DisconnectArgs, desk: &Desk, invocation: &Invocation<'_>) -> anyhow::Result<Vec<Planned>> {
    let bridge = desk.keeper.bridge();
    let ledger = bridge.ledger().map_err(|error| desk::refused(&error))?;
    let named = args.agents.iter().map(|name| known(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let only =
        args.project.as_deref().map(|folder| scope(Some(folder), invocation.environment())).transpose()?;
    let of_project = |project: &Option<PathBuf>| match &only {
        None => true,
        Some(Scope::Project(folder)) => project.as_ref() == Some(folder),
        Some(Scope::User) => project.is_none(),
    };
    let is_named = |agent: &str| named.is_empty() || named.iter().any(|named| named.id == agent);
    let meant: Vec<(&String, &str)> = ledger
        .connections
        .iter()
        .filter(|(_, connection)| is_named(&connection.agent) && of_project(&connection.project))
        .map(|(key, connection)| (key, connection.agent.as_str()))
        .collect();
    if let Some(missing) = named.iter().find(|named| !meant.iter().any(|(_, agent)| *agent == named.id)) {
        let known: Vec<&str> = ledger.connections.keys().map(String::as_str).collect();
        let hint = match known.as_slice() {
            [] => "nothing is connected on this machine".to_owned(),
            known => format!("connected are {}", known.join(", ")),
        };
        let message = format!("{} is not connected", missing.name);
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let plan = |bridge: &Bridge, key: &str| {
        bridge.plan_disconnect(key, args.policy.into()).map_err(|error| desk::refused(&error))
    };
    meant
        .into_iter()
        .map(|(key, agent)| {
            Ok(Planned { key: key.clone(), agent: agent.to_owned(), plan: plan(bridge, key)? })
        })
        .collect()
}

fn told(planned: &Planned) -> Value {
    json!({
        "key": planned.key,
        "files": planned.plan.changes.iter().map(shown::change_json).collect::<Vec<_>>(),
        "problems": planned.plan.problems.iter().map(shown::problem_json).collect::<Vec<_>>(),
    })
}

fn tell(out: &Output, key: &str, removed: &Removed, shown: usize) -> anyhow::Result<()> {
    removed.problems.iter().skip(shown).try_for_each(|problem| shown::problem(out, problem))?;
    out.line(&match removed.gone {
        true => format!("{key} is disconnected."),
        false => format!("{key} is not quite disconnected: see above."),
    })
}
