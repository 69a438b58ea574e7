//! `plexus down`: stops the hub on a data folder.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use plexus_kit::process::Stat;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use super::Invocation;
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::hub_file::HubLock;

const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How long to wait for a killed hub.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the unit that `plexus service install` writes.
const UNIT: &str = "plexus.service";

const AFTER_HELP: &str = "\
As with SIGTERM, the hub accepts no new requests, finishes running calls and writes its data to
disk. This works however the hub was started. Agents keep running: their proxies queue writes until
a hub is back.

Example:
  plexus down
  plexus down --data-dir ~/plexus --grace 2m";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DownArgs {
    /// How long to wait until the hub has stopped
    #[arg(long, value_name = "TIME", value_parser = arguments::span, default_value = "60s")]
    grace: u64,
    /// Kill the hub if it has not stopped after --grace
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(args: DownArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (data_dir, out) = (invocation.data_folder()?, &invocation.out);
    if let Err(error) = fs_err::metadata(data_dir.join("plexus.lock"))
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        return Err(Failure::new(Exit::Failed, error.to_string())
            .hint("run this as the user that the hub runs as")
            .into());
    }
    let Some(holder) = HubLock::holder(&data_dir) else {
        match out.json() {
            true => out.json_line(&json!({ "stopped": null }).to_string())?,
            false => out.note(&format!("No hub runs on the data folder {}.", data_dir.display())),
        }
        return Ok(Exit::Ok.into());
    };
    let folder = data_dir.display();
    let Some(pid) = holder.filter(|pid| HubLock::is_held_by(&data_dir, *pid)).and_then(Pid::from_raw) else {
        let message =
            format!("a hub runs on the data folder {folder}, but its process is not visible from here");
        return Err(Failure::new(Exit::Failed, message)
            .hint("stop it where it runs: in its container, or on the machine that shares the folder")
            .into());
    };
    let number = pid.as_raw_nonzero();
    send(pid, Signal::TERM, &data_dir)?;
    let grace = Duration::from_secs(args.grace);
    let mut ended = wait_until_stopped(&data_dir, pid, grace).await;
    if !ended && args.force {
        send(pid, Signal::KILL, &data_dir)?;
        ended = wait_until_stopped(&data_dir, pid, KILL_TIMEOUT).await;
    }
    if !ended {
        let message = format!("the hub (process {number}) has not stopped after {} s", args.grace);
        let hint = "calls may still be running; wait longer with --grace, or kill it with --force";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    match out.json() {
        true => out.json_line(&json!({ "stopped": number.get() }).to_string())?,
        false => out.line(&format!("Stopped the hub on {folder} (process {number})."))?,
    }
    Ok(Exit::Ok.into())
}

fn send(pid: Pid, signal: Signal, data_dir: &Path) -> anyhow::Result<()> {
    match kill_process(pid, signal) {
        // It has already exited.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => {
            let number = pid.as_raw_nonzero();
            let message =
                format!("cannot stop the hub on {} (process {number}): {error}", data_dir.display());
            let hint = match service_of(number.get()) {
                Some(control) => format!("it is a service: `{control} stop {UNIT}`"),
                None => "run this as the user that the hub runs as".to_owned(),
            };
            Err(Failure::new(Exit::Failed, message).hint(hint).into())
        }
    }
}

/// The command that controls the systemd service of the process; none if it is not a service.
fn service_of(pid: i32) -> Option<&'static str> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = groups.lines().find(|line| line.ends_with(&format!("/{UNIT}")))?;
    Some(if group.contains("/user@") { "systemctl --user" } else { "sudo systemctl" })
}

/// Waits until the process has ended; false after a timeout. A hub releases the lock with its database, while processes that it
/// started may still be ending.
async fn wait_until_stopped(data_dir: &Path, pid: Pid, timeout: Duration) -> bool {
    let started = Instant::now();
    loop {
        let holds_lock = HubLock::holder(data_dir) == Some(Some(pid.as_raw_nonzero().get()));
        if !holds_lock && !is_running(pid) {
            return true;
        }
        if started.elapsed() > timeout {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether the process runs. A zombie does not: its parent may never ask for its exit code.
fn is_running(pid: Pid) -> bool {
    let stat = u32::try_from(pid.as_raw_nonzero().get()).ok().and_then(Stat::of);
    !stat.is_some_and(|stat| stat.dead) && !matches!(test_kill_process(pid), Err(Errno::SRCH))
}
