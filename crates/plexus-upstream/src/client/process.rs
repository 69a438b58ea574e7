//! The process of a stdio server: started with a minimal environment, supervised, and stopped together with
//! its children.
//!
//! The process leads its own process group and is owned by a task. When the process exits, the rest of its
//! group is killed. When the hub stops it, its standard input is closed, which asks it to exit; after
//! [`EXIT_GRACE`] it receives SIGTERM, and after the same time again SIGKILL, together with its group. If the task
//! is aborted, the group is killed when the task is dropped.
//!
//! A hub that is itself killed cannot do any of this; its [`Guardian`]s do.

use std::fmt::Display;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::process::{Group, Guardian, Signal};
use plexus_kit::{ExposeSecret, Stage};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::stderr::{Mark, StderrRing, Withheld};
use super::{ClientError, Connect, install};
use crate::config::StdioConfig;

/// Time to exit after standard input was closed, and again after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// After SIGKILL only the kernel can delay the exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to read the remaining output of a process that has exited.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// A started process and its standard streams.
pub(super) struct SpawnedProcess {
    pub(super) process: Process,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// Cheap to clone. Dropping it does not stop the process: see [`stop_when_dropped`](Self::stop_when_dropped).
#[derive(Debug, Clone)]
pub(super) struct Process {
    pid: u32,
    stop: CancellationToken,
    /// How the process ended; set once its group is gone too.
    exit: watch::Receiver<Option<String>>,
    /// Cancelled when no more relevant output will be read.
    silent: CancellationToken,
    /// Cancelled when the standard streams have been read to the end, or are no longer needed.
    stdout_read: CancellationToken,
    stderr_read: CancellationToken,
    stderr: Arc<StderrRing>,
    /// Start of its output in the standard error buffer.
    stderr_start: Mark,
}

pub(super) fn spawn(config: &StdioConfig, connect: &Connect) -> Result<SpawnedProcess, ClientError> {
    let mut command = Command::new(&config.command);
    command
        .args(&config.args)
        .env_clear()
        .envs(connect.environment.inherited())
        .envs(config.env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = &config.cwd {
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(ClientError::Unreachable(format!(
                "`cwd` is not a folder: {folder}; create it or name another"
            )));
        }
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(|error| start_error(config, &error))?;
    let (Some(pid), Some(stdin), Some(stdout), Some(stderr)) =
        (child.id(), child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(ClientError::Unreachable("the process has no standard streams".to_owned()));
    };
    let (ended, exit) = watch::channel(None);
    let process = Process {
        pid,
        stop: CancellationToken::new(),
        exit,
        silent: CancellationToken::new(),
        stdout_read: CancellationToken::new(),
        stderr_read: CancellationToken::new(),
        stderr: connect.stderr.clone(),
        stderr_start: connect.stderr.mark(),
    };
    let name = &connect.config.name;
    let task = ProcessTask {
        group: Group::of(pid),
        child,
        guardian: Guardian::of(pid),
        ended,
        process: process.clone(),
    };
    connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: process {pid}"), task.run());
    let listening = process.clone();
    let withheld = Withheld::of(&config.env);
    connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: standard error"), async move {
        tokio::select! {
            () = listening.stderr.fill(stderr, &withheld) => {}
            // Another process holds the other end.
            () = listening.silent.cancelled() => {}
        }
        listening.stderr_read.cancel();
    });
    Ok(SpawnedProcess { process, stdin, stdout })
}

fn start_error(config: &StdioConfig, error: &io::Error) -> ClientError {
    let command = &config.command;
    ClientError::Unreachable(match error.kind() {
        io::ErrorKind::NotFound if command.contains('/') => {
            format!("there is no program `{command}`; correct `command`")
        }
        io::ErrorKind::NotFound => {
            let where_from = install::advice(command);
            format!(
                "the program `{command}` was not found; {where_from}. If it is installed, write its full path as \
                 `command`: the hub looks in the PATH that it was started with"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("the hub's user may not run `{command}`; check its permissions")
        }
        _ => format!("`{command}` cannot be started: {error}"),
    })
}

impl Process {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Stops the process when dropped.
    pub(super) fn stop_when_dropped(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Stops reading standard output when dropped.
    pub(super) fn read_when_dropped(&self) -> DropGuard {
        self.stdout_read.clone().drop_guard()
    }

    /// Resolves when the process and its group are gone.
    pub(super) async fn ended(&self) {
        // An error means that the task is gone, and its process with it.
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// Resolves some time after the process has ended, when its output has been read.
    pub(super) async fn silent(&self) {
        self.silent.cancelled().await;
    }

    /// How the process ended if it ends soon, otherwise `message`; with its last line of standard error.
    pub(super) async fn explain(&self, message: &str) -> String {
        let drained = async {
            self.ended().await;
            self.stderr_read.cancelled().await;
        };
        // The process may close its streams and continue to run.
        let _ = tokio::time::timeout(OUTPUT_GRACE, drained).await;
        let exit = self.exit.borrow().clone();
        self.stderr.explain(exit.unwrap_or_else(|| message.to_owned()), self.stderr_start)
    }
}

struct ProcessTask {
    /// Declared before `child`, so that the group is killed while its leader still occupies the process id.
    group: Group,
    child: Child,
    /// Declared after `group`, so that it is called off when there is nothing left to kill.
    guardian: Option<Guardian>,
    ended: watch::Sender<Option<String>>,
    process: Process,
}

impl ProcessTask {
    async fn run(mut self) {
        let stop = self.process.stop.clone();
        let ended = tokio::select! {
            status = self.child.wait() => status,
            () = stop.cancelled() => self.stop().await,
        };
        let Self { group, guardian, ended: exit, process, .. } = self;
        drop(group);
        if let Some(guardian) = guardian {
            guardian.dismiss().await;
        }
        exit.send_replace(Some(description(ended)));
        let read = async {
            process.stdout_read.cancelled().await;
            process.stderr_read.cancelled().await;
        };
        let _ = tokio::time::timeout(OUTPUT_GRACE, read).await;
        process.silent.cancel();
    }

    /// Stops the process; its standard input is already closed.
    async fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = tokio::time::timeout(EXIT_GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(EXIT_GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::KILL);
        match tokio::time::timeout(KILL_TIMEOUT, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                tracing::error!(pid = self.process.pid, "a killed process does not exit");
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

fn description(ended: io::Result<ExitStatus>) -> String {
    let how: &dyn Display = match &ended {
        Ok(status) => status,
        Err(error) => error,
    };
    format!("the process ended ({how})")
}
