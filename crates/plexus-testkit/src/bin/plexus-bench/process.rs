//! Measured processes, which end with the run.
//!
//! Every process is killed with all its descendants when its handle is dropped, also on Ctrl-C, which drops the run.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use plexus_testkit::Signal;
use rustix::process::{Pid, kill_process};
use tokio::process::{ChildStdin, ChildStdout};

use crate::serve;

/// Time limit for an interpreter with many modules on a busy machine; far beyond what each should take.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

/// A process with all its descendants.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    child: Child,
    log: PathBuf,
    /// Whether an echo server itself is measured, and not the program in front of it.
    is_echo_server: bool,
}

/// The resource use of a process tree so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Current resident memory, and its peak since the last reset, in bytes.
    pub(crate) rss: u64,
    pub(crate) peak: u64,
    /// The anonymous part of the current resident memory.
    pub(crate) anonymous: u64,
}

impl ProcessTree {
    /// Starts a program with only the command's own environment. Its output goes to `log`.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        command.stdin(Stdio::null());
        Self::spawn(command, log)
    }

    fn spawn(mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let program = command.get_program().to_owned();
        command.stderr(file);
        let child =
            command.spawn().with_context(|| format!("cannot start {}", Path::new(&program).display()))?;
        Ok(Self { child, log, is_echo_server: false })
    }

    /// The same, with pipes for its input and output.
    pub(crate) fn start_with_pipes(
        mut command: Command,
        log: PathBuf,
    ) -> Result<(Self, ChildStdin, ChildStdout)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tree = Self::spawn(command, log)?;
        let (stdin, stdout) = (tree.child.stdin.take(), tree.child.stdout.take());
        let stdin = ChildStdin::from_std(stdin.context("no input")?).context("its input")?;
        let stdout = ChildStdout::from_std(stdout.context("no output")?).context("its output")?;
        Ok((tree, stdin, stdout))
    }

    /// Starts a server; returns the line that it prints when it is ready.
    pub(crate) fn start_to_line(mut command: Command, log: PathBuf) -> Result<(Self, String)> {
        command.stdout(Stdio::piped());
        let mut tree = Self::start(command, log)?;
        let stdout = tree.child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("its address")?;
        ensure!(!line.is_empty(), "it ended before it was ready: {}", tree.log_tail());
        Ok((tree, line.trim().to_owned()))
    }

    /// Starts this program as one of its servers.
    pub(crate) fn start_server(args: &[&str], log: PathBuf) -> Result<(Self, String)> {
        let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
        command.arg(serve::COMMAND).args(args);
        let (mut tree, line) = Self::start_to_line(command, log)?;
        tree.is_echo_server = true;
        Ok((tree, line))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `probe` returns a value; an error if the process ends first.
    pub(crate) async fn wait_for<T>(&mut self, what: &str, probe: impl Fn() -> Option<T>) -> Result<T> {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if let Some(found) = probe() {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait().context("its status")? {
                bail!("it ended with {status} before {what}: {}", self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("{what} took more than {} s: {}", TIMEOUT.as_secs(), self.log_tail());
    }

    /// The last lines of its log.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let mut total = Usage::default();
        for id in descendants(self.id()) {
            if !self.is_echo_server && is_echo(id) {
                continue;
            }
            // A child may end during the measurement.
            let Some(usage) = usage(id) else { continue };
            total.cpu += usage.cpu;
            total.rss += usage.rss;
            total.peak += usage.peak;
            total.anonymous += usage.anonymous;
        }
        ensure!(total.rss > 0, "the process has ended: {}", self.log_tail());
        Ok(total)
    }

    /// The resource use of the process without its children.
    pub(crate) fn own_usage(&self) -> Result<Usage> {
        usage(self.id()).with_context(|| format!("the process has ended: {}", self.log_tail()))
    }

    /// Resets the peak, if the kernel permits.
    pub(crate) fn reset_peak(&self) {
        for id in descendants(self.id()) {
            let _ = fs::write(format!("/proc/{id}/clear_refs"), "5");
        }
    }

    /// Asks it to stop, and waits until it has exited.
    pub(crate) async fn stop(mut self) -> Result<()> {
        signal(self.id(), Signal::TERM);
        let begun = Instant::now();
        while self.child.try_wait().context("its status")?.is_none() {
            ensure!(begun.elapsed() < TIMEOUT, "it did not stop in time: {}", self.log_tail());
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        for id in descendants(self.id()) {
            signal(id, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(id.cast_signed()) {
        // It may have exited already.
        let _ = kill_process(pid, signal);
    }
}

/// CPU time of this program.
pub(crate) fn own_cpu() -> Duration {
    usage(std::process::id()).unwrap_or_default().cpu
}

/// A process and all its descendants.
fn descendants(root: u32) -> Vec<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, stat(id)?.parent))).collect();
    let (mut found, mut visited) = (vec![root], HashSet::from([root]));
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id);
        found.extend(children.filter(|id| visited.insert(*id)));
    }
    found
}

/// Whether it is the echo server behind the contenders.
fn is_echo(id: u32) -> bool {
    let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let args: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    args.get(1..3) == Some(&[serve::COMMAND.as_bytes(), serve::ECHO.as_bytes()])
}

struct Stat {
    parent: u32,
    ticks: u64,
}

fn stat(id: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The preceding name may contain any characters.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

fn usage(id: u32) -> Option<Usage> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    // The kernel reports CPU time in hundredths of a second.
    let cpu = Duration::from_millis(stat(id)?.ticks * 10);
    let [rss, peak, anonymous] = ["VmRSS:", "VmHWM:", "RssAnon:"].map(|name| Some(kib(name)? * 1024));
    Some(Usage { cpu, rss: rss?, peak: peak?, anonymous: anonymous? })
}
