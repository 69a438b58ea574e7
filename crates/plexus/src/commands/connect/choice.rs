//! Selects agents: by name, by a variable, or by a choice on the terminal.

use std::fmt;

use inquire::{InquireError, MultiSelect};
use plexus_bridge::agents::{AGENTS, Agent, InstalledAgent, Scope};
use plexus_kit::config::nearest;
use plexus_kit::env;

use super::local_agents::{self, LocalAgents};
use super::{ChangeArgs, display};
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// An agent and its installation on this machine, if one was found.
type SelectedAgent = (&'static Agent, Option<InstalledAgent>);

/// An agent that the user can choose.
struct AgentOption {
    agent: &'static Agent,
    installed: InstalledAgent,
    connected: bool,
}

impl fmt::Display for AgentOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.installed.version.as_deref();
        f.write_str(&display::with_version(self.agent.name, version))?;
        if self.agent.tested.is_none() {
            f.write_str(" (untested)")?;
        }
        if self.connected {
            f.write_str(" (connected)")?;
        }
        Ok(())
    }
}

/// The selected agents; none if the user chose none. `--yes` selects every agent that was found; so does a dry run without a
/// terminal, because it writes nothing.
pub(super) fn agents(
    named: &[String],
    change: &ChangeArgs,
    scope: &Scope,
    local_agents: &LocalAgents,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Option<Vec<SelectedAgent>>> {
    let variable = invocation.environment().get(env::AGENTS).unwrap_or_default();
    let from_variable = variable.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let names: Vec<String> = match named.is_empty() {
        true => from_variable.collect(),
        false => named.to_vec(),
    };
    let agents = names.iter().map(|name| agent_named(name)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(agent) = agents.iter().find(|agent| agent.servers(scope).is_none()) {
        let message = format!("{} has no MCP servers per project", agent.name);
        return Err(Failure::new(Exit::Usage, message).hint("connect it without --project").into());
    }
    let looking = invocation.out.progress("looking for agents");
    if !agents.is_empty() {
        let mut chosen: Vec<SelectedAgent> = Vec::new();
        for agent in agents {
            if !chosen.iter().any(|(known, _)| known.id == agent.id) {
                chosen.push((agent, local_agents.keeper.installed_agent(agent)));
            }
        }
        return Ok(Some(chosen));
    }
    let found = local_agents.keeper.installed_agents();
    drop(looking);
    let usable = found.into_iter().filter(|(agent, _)| agent.servers(scope).is_some());
    let ledger = local_agents.keeper.bridge().ledger().map_err(|error| local_agents::failure(&error))?;
    let choices: Vec<AgentOption> = usable
        .map(|(agent, installed)| AgentOption {
            connected: ledger.connections.contains_key(&plexus_bridge::Bridge::key(agent, scope)),
            agent,
            installed,
        })
        .collect();
    if choices.is_empty() {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        let message = format!("no agent was found on this machine; supported are {}", names.join(", "));
        return Err(Failure::new(Exit::Failed, message)
            .hint("install one, or name one to write its files in advance: plexus connect codex")
            .into());
    }
    let can_ask = invocation.out.can_prompt() && invocation.out.terminal();
    if change.yes || (change.dry_run && !can_ask) {
        return Ok(Some(choices.into_iter().map(|choice| (choice.agent, Some(choice.installed))).collect()));
    }
    if !can_ask {
        let names: Vec<&str> = choices.iter().map(|choice| choice.agent.id).collect();
        let message = "no agents are named, and there is no terminal to ask on";
        let hint = format!(
            "name them, or pass --yes for all that were found; --dry-run shows the changes: plexus connect {}",
            names.join(" ")
        );
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    ask(choices)
}

fn ask(choices: Vec<AgentOption>) -> anyhow::Result<Option<Vec<SelectedAgent>>> {
    // Most users want the tested agents that are not connected yet.
    let preselected: Vec<usize> = choices
        .iter()
        .enumerate()
        .filter(|(_, choice)| !choice.connected && choice.agent.tested.is_some())
        .map(|(at, _)| at)
        .collect();
    let answer = MultiSelect::new("Which agents should use Plexus?", choices)
        .with_default(&preselected)
        .with_help_message("up and down to move, space to choose, enter to continue, escape to cancel")
        .without_filtering()
        .prompt();
    match answer {
        Ok(chosen) if chosen.is_empty() => Ok(None),
        Ok(chosen) => {
            Ok(Some(chosen.into_iter().map(|choice| (choice.agent, Some(choice.installed))).collect()))
        }
        Err(InquireError::OperationCanceled) => Ok(None),
        Err(InquireError::OperationInterrupted) => {
            Err(Failure::new(Exit::Interrupted, "interrupted: nothing was changed").into())
        }
        Err(error) => Err(Failure::new(Exit::Failed, format!("cannot ask on the terminal: {error}"))
            .hint("name the agents on the command line: plexus connect codex claude-code")
            .into()),
    }
}

/// The supported agent with this name.
pub(crate) fn agent_named(name: &str) -> anyhow::Result<&'static Agent> {
    Agent::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.id).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}? Supported are {}", names.join(", ")),
            None => format!("supported are {}", names.join(", ")),
        };
        Failure::new(Exit::Usage, format!("unknown agent {name:?}")).hint(hint).into()
    })
}
