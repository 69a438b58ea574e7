//! `plexus stop`: stops agents that `plexus run` has started. Processes are found by the run's record, not by name.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use plexus_kit::process::Signal;
use plexus_proxy::runner::{RunFolders, RunRecord, RunState};
use rustix::process::{Pid, kill_process};

use super::Invocation;
use super::run::reap;
use super::run::token_issuer::TokenIssuer;
use crate::arguments;
use crate::failure::{Exit, Failure};

/// How long the runner has to clean up after its agent has ended.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

const AFTER_HELP: &str = "\
Sends SIGTERM to the agent, and kills it if it has not ended after --grace. The run then ends as
usual: its end is recorded in the session, and its token is revoked.

Example:
  plexus stop 3f9c21ab
  plexus stop --all --force";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StopArgs {
    /// Ids of runs, from `plexus ps`; the beginning of an id is enough
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<String>,
    /// Stop all runs on this machine
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Kill the agent at once
    #[arg(long)]
    force: bool,
    /// How long to wait before the agent is killed
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "10s")]
    grace: u64,
}

pub(crate) async fn run(args: StopArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let runs = RunFolders::of(&invocation.data_folder()?);
    reap::clean_up(&runs, TokenIssuer::new(invocation).ok().as_ref()).await;
    let active: Vec<RunRecord> = runs.list().into_iter().filter(|run| run.state != RunState::Ended).collect();
    let selected = match args.all {
        true => active,
        false => args.ids.iter().map(|id| find_run(&active, id)).collect::<anyhow::Result<_>>()?,
    };
    let grace = if args.force { Duration::ZERO } else { Duration::from_secs(args.grace) };
    for record in &selected {
        stop(&runs, record, grace).await?;
        invocation.out.line(&record.id)?;
    }
    if selected.is_empty() {
        invocation.out.note("No agents started by `plexus run` are running on this machine.");
    }
    Ok(Exit::Ok.into())
}

fn find_run(active: &[RunRecord], id: &str) -> anyhow::Result<RunRecord> {
    let matches = |record: &&RunRecord| !id.is_empty() && record.id.starts_with(id);
    let found: Vec<&RunRecord> = active.iter().filter(matches).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::new(Exit::Failed, format!("there is no run {id:?} on this machine"))
            .hint("`plexus ps` lists the runs")
            .into()),
        several => {
            let mut message = format!("several runs begin with {id:?}:");
            for record in several {
                message.push_str(&format!("\n  {}  {}", record.id, record.command));
            }
            Err(Failure::new(Exit::Usage, message).hint("use more characters of the id").into())
        }
    }
}

async fn stop(runs: &RunFolders, record: &RunRecord, grace: Duration) -> anyhow::Result<()> {
    let failed = |why: String| Failure::new(Exit::Failed, format!("run {}: {why}", record.id));
    runs.request_stop(&record.id).map_err(|e| failed(format!("cannot request the stop: {e}")))?;
    if !grace.is_zero() {
        // Between restarts there is no agent; the runner then gets the signal.
        if !reap::send_signal(record, Signal::TERM) {
            signal_runner(record);
        }
        reap::send_signal(record, Signal::CONT);
        if wait_until_ended(runs, record, grace).await {
            return Ok(());
        }
    }
    // The agent may have been restarted, with another process.
    let now = runs.read(&record.id).unwrap_or_else(|| record.clone());
    reap::send_signal(&now, Signal::KILL);
    match wait_until_ended(runs, &now, CLEANUP_TIMEOUT).await {
        true => Ok(()),
        false => Err(failed("it has not ended after SIGKILL".to_owned())
            .hint(format!("check its `plexus run` process, {}", record.runner.pid))
            .into()),
    }
}

fn signal_runner(record: &RunRecord) {
    let pid = i32::try_from(record.runner.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| record.runner.is_alive()) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Waits until the run has ended, except for pending reports to the hub. Returns false after a timeout.
async fn wait_until_ended(runs: &RunFolders, record: &RunRecord, timeout: Duration) -> bool {
    let (started, mut agent_ended_at) = (Instant::now(), None);
    loop {
        match runs.read(&record.id) {
            None => return true,
            Some(now) if now.state == RunState::Ended && !now.runner.is_alive() => return true,
            // The agent has ended. Its runner has time to clean up, however short the timeout for the agent was.
            Some(now) if !reap::is_alive(&now) => {
                let ended_at = *agent_ended_at.get_or_insert_with(Instant::now);
                if ended_at.elapsed() > CLEANUP_TIMEOUT {
                    return false;
                }
            }
            Some(_) if started.elapsed() > timeout => return false,
            Some(_) => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
