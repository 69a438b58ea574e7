//! Which agents are meant: by name, by a variable, or by a person at a terminal.

use std::fmt;

use inquire::{InquireError, MultiSelect};
use plexus_bridge::agents::{AGENTS, Agent, Installed, Scope};
use plexus_kit::config::nearest;
use plexus_kit::env;

use super::desk::{self, Desk};
use super::shown;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};

/// An agent and what was found of it here.
type Chosen = (&'static Agent, Option<Installed>);

/// A line to choose.
struct Choice {
    agent: &'static Agent,
    installed: Installed,
    connected: bool,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.installed.version.as_deref();
        f.write_str(&shown::with_version(self.agent.name, version))?;
        if self.agent.tested.is_none() {
            f.write_str(" (untested)")?;
        }
        if self.connected {
            f.write_str(" (connected)")?;
        }
        Ok(())
    }
}

/// The agents that are meant; none where a person has chosen none. `all` takes every agent that was found; without a
/// terminal a dry run does so too, since it writes nothing.
pub(super) fn agents(
    named: &[String],
    (all, dry_run): (bool, bool),
    scope: &Scope,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Option<Vec<Chosen>>> {
    let variable = invocation.environment().get(env::AGENTS).unwrap_or_default();
    let from_variable = variable.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let names: Vec<String> = match named.is_empty() {
        true => from_variable.collect(),
        false => named.to_vec(),
    };
    let agents = names.iter().map(|name| known(name)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(agent) = agents.iter().find(|agent| agent.servers(scope).is_none()) {
        let message = format!("{} has no MCP servers that are of one project only", agent.name);
        return Err(Failure::new(Exit::Usage, message).hint("connect it without --project").into());
    }
    let looking = invocation.out.progress("looking for agents");
    if !agents.is_empty() {
        let mut chosen: Vec<Chosen> = Vec::new();
        for agent in agents {
            if !chosen.iter().any(|(known, _)| known.id == agent.id) {
                chosen.push((agent, desk.keeper.found_of(agent)));
            }
        }
        return Ok(Some(chosen));
    }
    let found = desk.keeper.found();
    drop(looking);
    let usable = found.into_iter().filter(|(agent, _)| agent.servers(scope).is_some());
    let ledger = desk.keeper.bridge().ledger().map_err(|error| desk::refused(&error))?;
    let choices: Vec<Choice> = usable
        .map(|(agent, installed)| Choice {
            connected: ledger.connections.contains_key(&plexus_bridge::Bridge::key(agent, scope)),
            agent,
            installed,
        })
        .collect();
    if choices.is_empty() {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        let message = format!("no agent was found on this machine; known are {}", names.join(", "));
        return Err(Failure::new(Exit::Failed, message)
            .hint("install one, or name one to have its files written before: plexus connect codex")
            .into());
    }
    let can_ask = invocation.out.can_ask() && invocation.out.terminal();
    if all || (dry_run && !can_ask) {
        return Ok(Some(choices.into_iter().map(|choice| (choice.agent, Some(choice.installed))).collect()));
    }
    if !can_ask {
        let names: Vec<&str> = choices.iter().map(|choice| choice.agent.id).collect();
        let message = "it is not said which agents to connect, and there is nobody to ask";
        let hint = format!(
            "name them, or say --yes for all that were found; --dry-run shows the changes: plexus connect {}",
            names.join(" ")
        );
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    ask(choices)
}

fn ask(choices: Vec<Choice>) -> anyhow::Result<Option<Vec<Chosen>>> {
    // What is tested and not connected is what most people are here for.
    let usual: Vec<usize> = choices
        .iter()
        .enumerate()
        .filter(|(_, choice)| !choice.connected && choice.agent.tested.is_some())
        .map(|(at, _)| at)
        .collect();
    let asked = MultiSelect::new("Which agents should use Plexus?", choices)
        .with_default(&usual)
        .with_help_message("up and down, space to choose, enter to go on, escape to leave")
        .without_filtering()
        .prompt();
    match asked {
        Ok(chosen) if chosen.is_empty() => Ok(None),
        Ok(chosen) => {
            Ok(Some(chosen.into_iter().map(|choice| (choice.agent, Some(choice.installed))).collect()))
        }
        Err(InquireError::OperationCanceled) => Ok(None),
        Err(InquireError::OperationInterrupted) => {
            Err(Failure::new(Exit::Interrupted, "interrupted: nothing was changed").into())
        }
        Err(error) => Err(Failure::new(Exit::Failed, format!("the terminal cannot be asked: {error}"))
            .hint("name the agents on the command line: plexus connect codex claude-code")
            .into()),
    }
}

/// The agent of this name.
pub(crate) fn known(name: &str) -> anyhow::Result<&'static Agent> {
    Agent::named(name).ok_or_else(|| {
        let names: Vec<&str> = AGENTS.iter().map(|agent| agent.id).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}? Known are {}", names.join(", ")),
            None => format!("known are {}", names.join(", ")),
        };
        Failure::new(Exit::Usage, format!("there is no agent {name:?}")).hint(hint).into()
    })
}
