//! `plexus stop`: ends an agent that `plexus run` has started, by its record and never by its name.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use plexus_kit::process::Signal;
use plexus_proxy::runner::{RunFolders, RunRecord, RunState};
use rustix::process::{Pid, kill_process};

use super::Invocation;
use super::run::maker::Maker;
use super::run::reap;
use crate::arguments;
use crate::failure::{Exit, Failure};

/// For a runner to give everything back after its agent has ended.
const CLEARED: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(25);

const AFTER_HELP: &str = "\
The agent is asked to end with SIGTERM, and killed when it has not after --grace. Its run then ends
as always: the session is told, the token revoked.

Example:
  plexus stop 3f9c21ab
  plexus stop --all --force";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StopArgs {
    /// Runs, as `plexus ps` lists them; the beginning of an id is enough
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<String>,
    /// All runs of this machine
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Kill it at once
    #[arg(long)]
    force: bool,
    /// How long it may take to end by itself
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "10s")]
    grace: u64,
}

pub(crate) async fn run(args: StopArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let runs = RunFolders::of(&invocation.data_folder()?);
    reap::all(&runs, Maker::new(invocation).ok().as_ref()).await;
    let there: Vec<RunRecord> = runs.list().into_iter().filter(|run| run.state != RunState::Ended).collect();
    let meant = match args.all {
        true => there,
        false => args.ids.iter().map(|id| named(&there, id)).collect::<anyhow::Result<_>>()?,
    };
    let grace = if args.force { Duration::ZERO } else { Duration::from_secs(args.grace) };
    for record in &meant {
        stop(&runs, record, grace).await?;
        invocation.out.line(&record.id)?;
    }
    if meant.is_empty() {
        invocation.out.note("No agent runs here that was started with `plexus run`.");
    }
    Ok(Exit::Ok.into())
}

fn named(there: &[RunRecord], id: &str) -> anyhow::Result<RunRecord> {
    let fits = |record: &&RunRecord| !id.is_empty() && record.id.starts_with(id);
    let fitting: Vec<&RunRecord> = there.iter().filter(fits).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::new(Exit::Failed, format!("no run {id:?} on this machine"))
            .hint("`plexus ps` lists them")
            .into()),
        several => {
            let mut message = format!("{id:?} is the beginning of several runs:");
            for record in several {
                message.push_str(&format!("\n  {}  {}", record.id, record.command));
            }
            Err(Failure::new(Exit::Usage, message).hint("give more of the id").into())
        }
    }
}

async fn stop(runs: &RunFolders, record: &RunRecord, grace: Duration) -> anyhow::Result<()> {
    let failed = |why: String| Failure::new(Exit::Failed, format!("run {}: {why}", record.id));
    runs.request_stop(&record.id).map_err(|e| failed(format!("cannot be asked to stop: {e}")))?;
    if !grace.is_zero() {
        // One that is between two attempts has no agent: then its runner is told.
        if !reap::send(record, Signal::TERM) {
            tell_runner(record);
        }
        reap::send(record, Signal::CONT);
        if is_over(runs, record, grace).await {
            return Ok(());
        }
    }
    // Started again meanwhile, it has another process.
    let now = runs.read(&record.id).unwrap_or_else(|| record.clone());
    reap::send(&now, Signal::KILL);
    match is_over(runs, &now, CLEARED).await {
        true => Ok(()),
        false => Err(failed("it does not end".to_owned())
            .hint(format!("its runner is process {}; see what it does", record.runner.pid))
            .into()),
    }
}

fn tell_runner(record: &RunRecord) {
    let pid = i32::try_from(record.runner.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| record.runner.is_alive()) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Waits until the run has ended and nothing is left of it but what the hub has to hear.
async fn is_over(runs: &RunFolders, record: &RunRecord, patience: Duration) -> bool {
    let (begun, mut since) = (Instant::now(), None);
    loop {
        match runs.read(&record.id) {
            None => return true,
            Some(now) if now.state == RunState::Ended && !now.runner.is_alive() => return true,
            // The agent is gone; its runner has some time to tell the hub, however short the patience with the agent.
            Some(now) if !reap::is_alive(&now) => {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() > CLEARED {
                    return false;
                }
            }
            Some(_) if begun.elapsed() > patience => return false,
            Some(_) => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}
