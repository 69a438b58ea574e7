//! `plexus sync`: writes the hub's workspace into the instructions of agents.
//!
//! The hub updates the agents on its own machine, and each node those on its machine. The command does so on a
//! machine that runs neither, and its subcommands manage the agents on all machines.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use plexus_bridge::InstructionContent;
use plexus_proto::api::{
    ChangeExternalAgentParams, ExternalAgentInstructions, ExternalAgentSync, ExternalAgents,
    RemovedExternalAgent, SyncExternalAgentsParams,
};

use super::Invocation;
use super::connect::display;
use super::connect::local_agents::{self, LocalAgents};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

/// Interval between requests to the hub.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Without a subcommand, updates the instructions of the agents on this machine until Ctrl-C: polls the
hub every 10 seconds and prints each file it writes. The hub's own machine and its nodes do this
automatically, so the command is only needed on other machines.

Examples:
  plexus sync --once
  plexus sync list                  # agents on all machines, with the state of their files
  plexus sync pause local:codex     # stop updating its instructions
  plexus sync now                   # update all machines now";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct SyncArgs {
    /// Update the files once and exit
    #[arg(long)]
    once: bool,
    #[command(subcommand)]
    command: Option<SyncCommand>,
}

#[derive(Debug, Subcommand)]
enum SyncCommand {
    /// List the agents on all machines, connected or only installed
    #[command(after_help = "Example:\n  plexus sync list")]
    List,
    /// Update the instructions on all machines now
    #[command(after_help = "Example:\n  plexus sync now\n  plexus sync now local:codex")]
    Now {
        /// Only this agent, such as local:codex, even if it is paused
        id: Option<String>,
    },
    /// Stop updating the instructions of an agent
    #[command(after_help = "Example:\n  plexus sync pause local:codex")]
    Pause {
        /// The agent, such as local:codex
        id: String,
    },
    /// Resume updating the instructions of an agent
    #[command(after_help = "Example:\n  plexus sync resume local:codex")]
    Resume {
        /// The agent, such as local:codex
        id: String,
    },
    /// Disconnect an agent on any machine
    #[command(after_help = "Example:\n  plexus sync remove nas:claude-code")]
    Remove {
        /// The agent, such as nas:claude-code
        id: String,
    },
}

pub(crate) async fn run(args: SyncArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let Some(command) = args.command else { return sync_this_machine(args.once, invocation).await };
    let hub = invocation.hub()?;
    match command {
        SyncCommand::List => {
            let answer = hub.get(&["external-agents"], &[]).await?;
            if out.json() {
                out.json_line(answer.raw().get())?;
                return Ok(Exit::Ok.into());
            }
            let ExternalAgents { items, unanswered } = answer.decode()?;
            if items.is_empty() {
                out.note("No agent was found on any machine.");
            } else {
                display::print_agents(out, &items)?;
            }
            for machine in unanswered {
                out.note(&format!("{} did not answer: {}", machine.node, machine.why));
            }
            Ok(Exit::Ok.into())
        }
        SyncCommand::Now { id } => {
            let params = SyncExternalAgentsParams { id: id.map(with_machine) };
            let answer = hub.post(&["external-agents", "sync"], &params, &[]).await?;
            print_result(out, &answer.decode()?)
        }
        SyncCommand::Pause { id } => set_paused(&hub, &with_machine(id), true, out).await,
        SyncCommand::Resume { id } => set_paused(&hub, &with_machine(id), false, out).await,
        SyncCommand::Remove { id } => {
            let id = with_machine(id);
            let answer = hub.delete(&["external-agents", &id]).await?;
            let removed: RemovedExternalAgent = answer.decode()?;
            if out.json() {
                out.json_line(answer.raw().get())?;
            } else {
                removed.problems.iter().for_each(|problem| out.note(problem));
                out.line(&match removed.gone {
                    true => format!("{id} is disconnected."),
                    false => format!("{id} is only partly disconnected: see above."),
                })?;
            }
            Ok(if removed.gone { Exit::Ok } else { Exit::Failed }.into())
        }
    }
}

/// Completes an id without a machine with that of the hub, `local`.
fn with_machine(id: String) -> String {
    if id.contains(':') { id } else { format!("local:{id}") }
}

async fn set_paused(hub: &Hub, id: &str, paused: bool, out: &Output) -> anyhow::Result<ExitCode> {
    let answer = hub.patch(&["external-agents", id], &ChangeExternalAgentParams { paused }).await?;
    match (out.json(), paused) {
        (true, _) => out.json_line(answer.raw().get())?,
        (false, true) => out.line(&format!("{id} is paused: its instructions are not updated."))?,
        (false, false) => out.line(&format!("{id} is updated again."))?,
    }
    Ok(Exit::Ok.into())
}

/// Updates the agents on this machine, once or until a signal.
async fn sync_this_machine(once: bool, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, local_agents, hub) = (&invocation.out, LocalAgents::open(invocation)?, invocation.hub()?);
    if local_agents.keeper.is_idle().map_err(|error| local_agents::failure(&error))? {
        return Err(Failure::new(Exit::Failed, "no agent on this machine is connected")
            .hint("connect agents with `plexus connect`")
            .into());
    }
    if once {
        let instructions = fetch(&hub).await?;
        let result =
            local_agents.keeper.sync(&InstructionContent::from(&instructions), &instructions.agents, None);
        return print_result(out, &result.map_err(|error| local_agents::failure(&error))?);
    }
    follow(&local_agents, &hub, invocation).await
}

/// Writes changes of the hub's instructions until a signal arrives, and prints one line per file.
async fn follow(
    local_agents: &LocalAgents,
    hub: &Hub,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let mut signals = Signals::new()?;
    print_introduction(local_agents, hub, invocation)?;
    let mut last: Option<(ExternalAgentInstructions, Instant)> = None;
    // Problems that were already printed.
    let mut known: Vec<String> = Vec::new();
    let mut unreachable = false;
    loop {
        match fetch(hub).await {
            Ok(instructions) => {
                if std::mem::take(&mut unreachable) {
                    print_note(out, "The hub answers again.");
                }
                let interval = Duration::from_secs(instructions.minutes.saturating_mul(60));
                let due = last
                    .as_ref()
                    .is_none_or(|(previous, at)| *previous != instructions || at.elapsed() >= interval);
                if due {
                    let content = InstructionContent::from(&instructions);
                    let result = match local_agents.keeper.sync(&content, &instructions.agents, None) {
                        Ok(result) => result,
                        // Another command holds the lock; the files are checked again after the interval.
                        Err(error) if error.is_retryable() => ExternalAgentSync::default(),
                        Err(error) => return Err(local_agents::failure(&error).into()),
                    };
                    let is_first = last.is_none();
                    print_round(out, &result, &mut known, is_first)?;
                    last = Some((instructions, Instant::now()));
                }
            }
            Err(error) if !unreachable => {
                unreachable = true;
                print_note(out, &format!("{error:#}. Retrying every {} s.", POLL_INTERVAL.as_secs()));
            }
            Err(error) => tracing::debug!("{error:#}"),
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = signals.next() => return Ok(Exit::Ok.into()),
        }
    }
}

/// Prints the hub, the agents and how to stop, because nothing else may be printed for hours.
fn print_introduction(
    local_agents: &LocalAgents,
    hub: &Hub,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    let out = &invocation.out;
    let ledger = local_agents.keeper.bridge().ledger().map_err(|error| local_agents::failure(&error))?;
    let synced = ledger.connections.iter().filter(|(_, known)| known.instructions && !known.paused);
    let synced: Vec<&str> = synced.map(|(key, _)| key.as_str()).collect();
    let agents = match synced.as_slice() {
        [] => "no agent: all are paused or were connected with --no-instructions".to_owned(),
        synced => synced.join(", "),
    };
    print_note(out, &format!("Following the instructions of the hub at {} for {agents}.", hub.url()));
    print_note(
        out,
        &format!(
            "Polling every {} s; each file that is written is printed. Ctrl-C stops this. To update once, use `plexus \
             sync --once`.",
            POLL_INTERVAL.as_secs()
        ),
    );
    if invocation.target()?.is_local && !invocation.names_hub() {
        print_note(
            out,
            "The hub runs on this machine and does the same automatically: this command is not needed here.",
        );
    }
    Ok(())
}

/// Prints a note, unless the output is JSON.
fn print_note(out: &Output, text: &str) {
    if !out.json() {
        out.note(text);
    }
}

/// Prints one line for each file that was written and for each new problem.
fn print_round(
    out: &Output,
    result: &ExternalAgentSync,
    known: &mut Vec<String>,
    is_first: bool,
) -> anyhow::Result<()> {
    let is_changed = !result.written.is_empty() || result.problems != *known;
    if out.json() && is_changed {
        out.json_line(&serde_json::to_string(result)?)?;
    }
    if !out.json() {
        result.written.iter().try_for_each(|path| out.line(&format!("wrote {path}")))?;
        let new = result.problems.iter().filter(|problem| !known.contains(problem));
        new.for_each(|problem| out.note(problem));
        if is_first && result.written.is_empty() && result.problems.is_empty() {
            out.note("All files are up to date.");
        }
    }
    known.clone_from(&result.problems);
    Ok(())
}

async fn fetch(hub: &Hub) -> anyhow::Result<ExternalAgentInstructions> {
    hub.get(&["external-agents", "instructions"], &[]).await?.decode()
}

fn print_result(out: &Output, result: &ExternalAgentSync) -> anyhow::Result<ExitCode> {
    if out.json() {
        out.json_line(&serde_json::to_string(result)?)?;
    } else {
        result.written.iter().try_for_each(|path| out.line(&format!("wrote {path}")))?;
        result.problems.iter().for_each(|problem| out.note(problem));
        out.line(&format!(
            "{} checked, {} written.",
            counted(result.agents, "agent"),
            counted(result.written.len(), "file")
        ))?;
    }
    Ok(if result.problems.is_empty() { Exit::Ok } else { Exit::Failed }.into())
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
