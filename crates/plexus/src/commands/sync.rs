//! `plexus sync`: what the hub's workspace says of agents is in their instructions.
//!
//! A hub keeps the agents of its own machine current, and nodes those of theirs. The command does it on a machine that has neither,
//! and looks after all of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use plexus_bridge::Content;
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

/// Between two looks at what the hub has.
const LOOK: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Without a subcommand the agents of this machine are kept current until Ctrl-C: the hub is asked
every 10 seconds, and each file that is written is printed. That is for a machine that is neither
the hub's nor a node of it: there it happens by itself.

Examples:
  plexus sync --once
  plexus sync list                  # agents of all machines, and how their files are
  plexus sync pause local:codex     # leave its instructions alone
  plexus sync now                   # on all machines, at once";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct SyncArgs {
    /// Look once, and end
    #[arg(long)]
    once: bool,
    #[command(subcommand)]
    command: Option<SyncCommand>,
}

#[derive(Debug, Subcommand)]
enum SyncCommand {
    /// List the agents of all machines: those that are connected and those that were found
    #[command(after_help = "Example:\n  plexus sync list")]
    List,
    /// Have the hub write the instructions on all machines now
    #[command(after_help = "Example:\n  plexus sync now\n  plexus sync now local:codex")]
    Now {
        /// Only this one, such as local:codex; also if it is paused
        id: Option<String>,
    },
    /// Leave the instructions of an agent as they are
    #[command(after_help = "Example:\n  plexus sync pause local:codex")]
    Pause {
        /// The agent, such as local:codex
        id: String,
    },
    /// Keep the instructions of an agent current again
    #[command(after_help = "Example:\n  plexus sync resume local:codex")]
    Resume {
        /// The agent, such as local:codex
        id: String,
    },
    /// Disconnect an agent, on whichever machine it is
    #[command(after_help = "Example:\n  plexus sync remove nas:claude-code")]
    Remove {
        /// The agent, such as nas:claude-code
        id: String,
    },
}

pub(crate) async fn run(args: SyncArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let Some(command) = args.command else { return here(args.once, invocation).await };
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
            let params = SyncExternalAgentsParams { id: id.map(whole) };
            let answer = hub.post(&["external-agents", "sync"], &params, &[]).await?;
            tell(out, &answer.decode()?)
        }
        SyncCommand::Pause { id } => pause(&hub, &whole(id), true, out).await,
        SyncCommand::Resume { id } => pause(&hub, &whole(id), false, out).await,
        SyncCommand::Remove { id } => {
            let id = whole(id);
            let answer = hub.delete(&["external-agents", &id]).await?;
            let removed: RemovedExternalAgent = answer.decode()?;
            if out.json() {
                out.json_line(answer.raw().get())?;
            } else {
                removed.problems.iter().for_each(|problem| out.note(problem));
                out.line(&match removed.gone {
                    true => format!("{id} is disconnected."),
                    false => format!("{id} is not quite disconnected: see above."),
                })?;
            }
            Ok(if removed.gone { Exit::Ok } else { Exit::Failed }.into())
        }
    }
}

/// An id without a machine is of the hub's own.
fn whole(id: String) -> String {
    if id.contains(':') { id } else { format!("local:{id}") }
}

async fn pause(hub: &Hub, id: &str, paused: bool, out: &Output) -> anyhow::Result<ExitCode> {
    let answer = hub.patch(&["external-agents", id], &ChangeExternalAgentParams { paused }).await?;
    match (out.json(), paused) {
        (true, _) => out.json_line(answer.raw().get())?,
        (false, true) => out.line(&format!("{id} is paused: its instructions stay as they are."))?,
        (false, false) => out.line(&format!("{id} is kept current again."))?,
    }
    Ok(Exit::Ok.into())
}

/// Keeps the agents of this machine current.
async fn here(once: bool, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, desk, hub) = (&invocation.out, LocalAgents::open(invocation)?, invocation.hub()?);
    if desk.keeper.is_idle().map_err(|error| local_agents::failure(&error))? {
        return Err(Failure::new(Exit::Failed, "no agent of this machine is connected")
            .hint("plexus connect")
            .into());
    }
    if once {
        let now = fetch(&hub).await?;
        let done = desk.keeper.sync(&Content::from(&now), &now.agents, None);
        return tell(out, &done.map_err(|error| local_agents::failure(&error))?);
    }
    follow(&desk, &hub, invocation).await
}

/// Writes what changes at the hub until a signal comes, and prints one line for each file.
async fn follow(desk: &LocalAgents, hub: &Hub, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let mut signals = Signals::new()?;
    introduce(desk, hub, invocation)?;
    let mut last: Option<(ExternalAgentInstructions, Instant)> = None;
    // Problems that were printed, so that each is printed once.
    let mut known: Vec<String> = Vec::new();
    let mut unreachable = false;
    loop {
        match fetch(hub).await {
            Ok(now) => {
                if std::mem::take(&mut unreachable) {
                    remark(out, "The hub answers again.");
                }
                let every = Duration::from_secs(now.minutes.saturating_mul(60));
                let due = last.as_ref().is_none_or(|(was, at)| *was != now || at.elapsed() >= every);
                if due {
                    let done = match desk.keeper.sync(&Content::from(&now), &now.agents, None) {
                        Ok(done) => done,
                        // Another command holds the lock; the next round tries again.
                        Err(error) if error.is_retryable() => ExternalAgentSync::default(),
                        Err(error) => return Err(local_agents::failure(&error).into()),
                    };
                    let is_first = last.is_none();
                    tell_round(out, &done, &mut known, is_first)?;
                    last = Some((now, Instant::now()));
                }
            }
            Err(error) if !unreachable => {
                unreachable = true;
                remark(out, &format!("{error:#}. Trying again every {} s.", LOOK.as_secs()));
            }
            Err(error) => tracing::debug!("{error:#}"),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = signals.next() => return Ok(Exit::Ok.into()),
        }
    }
}

/// Says what is watched and how to stop, since nothing else may be printed for hours.
fn introduce(desk: &LocalAgents, hub: &Hub, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let out = &invocation.out;
    let ledger = desk.keeper.bridge().ledger().map_err(|error| local_agents::failure(&error))?;
    let watched = ledger.connections.iter().filter(|(_, known)| known.instructions && !known.paused);
    let watched: Vec<&str> = watched.map(|(key, _)| key.as_str()).collect();
    let whose = match watched.as_slice() {
        [] => "no agent: all are paused or were connected with --no-instructions".to_owned(),
        watched => watched.join(", "),
    };
    remark(out, &format!("Following the instructions of the hub at {} for {whose}.", hub.url()));
    remark(
        out,
        &format!(
            "The hub is asked every {} s, and each file that is written is printed. Ctrl-C stops this; `plexus sync \
             --once` looks once.",
            LOOK.as_secs()
        ),
    );
    if invocation.target()?.is_local && !invocation.names_hub() {
        remark(
            out,
            "The hub runs on this machine and does the same by itself: this command is not needed here.",
        );
    }
    Ok(())
}

/// A remark for a person; a program that reads JSON gets changes only.
fn remark(out: &Output, text: &str) {
    if !out.json() {
        out.note(text);
    }
}

/// One line for each file that was written and for each new problem.
fn tell_round(
    out: &Output,
    done: &ExternalAgentSync,
    known: &mut Vec<String>,
    is_first: bool,
) -> anyhow::Result<()> {
    let is_news = !done.written.is_empty() || done.problems != *known;
    if out.json() && is_news {
        out.json_line(&serde_json::to_string(done)?)?;
    }
    if !out.json() {
        done.written.iter().try_for_each(|path| out.line(&format!("wrote {path}")))?;
        let new = done.problems.iter().filter(|problem| !known.contains(problem));
        new.for_each(|problem| out.note(problem));
        if is_first && done.written.is_empty() && done.problems.is_empty() {
            out.note("All files are current.");
        }
    }
    known.clone_from(&done.problems);
    Ok(())
}

async fn fetch(hub: &Hub) -> anyhow::Result<ExternalAgentInstructions> {
    hub.get(&["external-agents", "instructions"], &[]).await?.decode()
}

fn tell(out: &Output, done: &ExternalAgentSync) -> anyhow::Result<ExitCode> {
    if out.json() {
        out.json_line(&serde_json::to_string(done)?)?;
    } else {
        done.written.iter().try_for_each(|path| out.line(&format!("wrote {path}")))?;
        done.problems.iter().for_each(|problem| out.note(problem));
        out.line(&format!(
            "{} looked at, {} written.",
            counted(done.agents, "agent"),
            counted(done.written.len(), "file")
        ))?;
    }
    Ok(if done.problems.is_empty() { Exit::Ok } else { Exit::Failed }.into())
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
