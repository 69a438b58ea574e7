//! The process of a stdio server: started with little, watched, and ended with all that it has started.
//!
//! It leads a process group of its own. A task keeps it: when the process ends by itself the rest of its group is
//! killed; when the hub is done with it, its standard input is closed, which asks it to end, and what has not by
//! [`GRACE`] gets SIGTERM, and SIGKILL after as long again, group and all. Should the task be aborted, the group is
//! killed as the task goes.
//!
//! A hub that is itself killed cannot do any of this: its [`Guardian`]s do.

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

/// To end by itself, and then to end when asked to.
const GRACE: Duration = Duration::from_secs(2);
/// After SIGKILL only the kernel can hold a process up.
const KILLED: Duration = Duration::from_secs(5);
/// For what a process has left in its pipes, after it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A process that was started, and the two ends to talk to it.
pub(super) struct Spawned {
    pub(super) process: Process,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// Cheap to clone. Dropping it ends nothing: see [`stop_when_dropped`](Self::stop_when_dropped).
#[derive(Debug, Clone)]
pub(super) struct Process {
    pid: u32,
    stop: CancellationToken,
    /// How it ended, once it has and its group is gone.
    exit: watch::Receiver<Option<String>>,
    /// Nothing more will be read of it that counts.
    silent: CancellationToken,
    /// Its standard streams have been read to the end, or nobody wants to any more.
    stdout_read: CancellationToken,
    stderr_read: CancellationToken,
    stderr: Arc<StderrRing>,
    /// Where what it writes there begins.
    begun: Mark,
}

pub(super) fn spawn(config: &StdioConfig, connect: &Connect) -> Result<Spawned, ClientError> {
    let mut command = Command::new(&config.command);
    command
        .args(&config.args)
        .env_clear()
        .envs(connect.environment.passed_on())
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
                "`cwd` is no folder: {folder}; make it or name another"
            )));
        }
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(|error| not_started(config, &error))?;
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
        begun: connect.stderr.mark(),
    };
    let name = &connect.config.name;
    let keeper =
        Keeper { group: Group::of(pid), child, guardian: Guardian::of(pid), ended, process: process.clone() };
    connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: process {pid}"), keeper.keep());
    let listening = process.clone();
    let withheld = Withheld::of(&config.env);
    connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: standard error"), async move {
        tokio::select! {
            () = listening.stderr.fill(stderr, &withheld) => {}
            // Someone else holds the other end.
            () = listening.silent.cancelled() => {}
        }
        listening.stderr_read.cancel();
    });
    Ok(Spawned { process, stdin, stdout })
}

fn not_started(config: &StdioConfig, error: &io::Error) -> ClientError {
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
            format!("`{command}` may not be run by the user of the hub; check its permissions")
        }
        _ => format!("`{command}` cannot be started: {error}"),
    })
}

impl Process {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// The process is ended when this is dropped.
    pub(super) fn stop_when_dropped(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// When this is dropped nothing more is read of its standard output.
    pub(super) fn read_when_dropped(&self) -> DropGuard {
        self.stdout_read.clone().drop_guard()
    }

    /// When it is gone, and its group with it.
    pub(super) async fn ended(&self) {
        // An error is a keeper that is gone, and its process with it.
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// When it is gone for so long that all it had to say was read.
    pub(super) async fn silent(&self) {
        self.silent.cancelled().await;
    }

    /// How it ended, if it does about now; else `what`. With the last of what it wrote to its standard error.
    pub(super) async fn explain(&self, what: &str) -> String {
        let gone = async {
            self.ended().await;
            self.stderr_read.cancelled().await;
        };
        // It may close its streams and live on.
        let _ = tokio::time::timeout(LAST_WORDS, gone).await;
        let exit = self.exit.borrow().clone();
        self.stderr.explain(exit.unwrap_or_else(|| what.to_owned()), self.begun)
    }
}

struct Keeper {
    /// In front of `child`: the group is killed while its leader still holds the number.
    group: Group,
    child: Child,
    /// After `group`, so that it is called off when there is nothing left to do.
    guardian: Option<Guardian>,
    ended: watch::Sender<Option<String>>,
    process: Process,
}

impl Keeper {
    async fn keep(mut self) {
        let stop = self.process.stop.clone();
        let ended = tokio::select! {
            status = self.child.wait() => status,
            () = stop.cancelled() => self.stop().await,
        };
        let Self { group, guardian, ended: exit, process, .. } = self;
        drop(group);
        if let Some(guardian) = guardian {
            guardian.call_off().await;
        }
        exit.send_replace(Some(described(ended)));
        let read = async {
            process.stdout_read.cancelled().await;
            process.stderr_read.cancelled().await;
        };
        let _ = tokio::time::timeout(LAST_WORDS, read).await;
        process.silent.cancel();
    }

    /// Its standard input is closed by now.
    async fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = tokio::time::timeout(GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::TERM);
        if let Ok(status) = tokio::time::timeout(GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::KILL);
        match tokio::time::timeout(KILLED, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                tracing::error!(pid = self.process.pid, "a killed process does not go away");
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

fn described(ended: io::Result<ExitStatus>) -> String {
    let how: &dyn Display = match &ended {
        Ok(status) => status,
        Err(error) => error,
    };
    format!("the process ended ({how})")
}
