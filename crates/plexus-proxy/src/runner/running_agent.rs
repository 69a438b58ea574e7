//! Starts an agent, waits for it, suspends with it, and forwards signals to it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plexus_kit::process::Guardian;
use plexus_kit::{ExposeSecret as _, Secret};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process, kill_process_group,
    waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::terminal::{self, Terminal};
use super::{AgentExit, ProcessId};

/// Time to wait for SIGCONT after suspending. A suspended runner does not run during this time; without a shell that
/// could resume the job, the system does not suspend it, and the agent continues after this time.
const SUSPENDED: Duration = Duration::from_millis(200);

/// The command of an agent.
#[derive(Debug)]
pub struct AgentCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// The variable that contains the secret.
    pub key: Option<(String, Secret)>,
    /// Variables of the runner that are removed.
    pub removed_variables: Vec<String>,
}

/// The signals that a runner handles. Must be created before the agent starts, so that none is missed.
#[derive(Debug)]
pub struct Signals {
    children: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    forwarded: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub fn install() -> io::Result<Self> {
        let kinds = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        Ok(Self {
            children: signal(SignalKind::child())?,
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
            forwarded: kinds
                .into_iter()
                .map(|(sent, kind)| Ok((sent, signal(kind)?)))
                .collect::<io::Result<_>>()?,
        })
    }

    /// The next signal for the agent.
    pub async fn next(&mut self) -> Signal {
        next(&mut self.forwarded).await
    }
}

/// A started agent.
#[derive(Debug)]
pub struct RunningAgent {
    pid: Pid,
    pub id: ProcessId,
    /// Whether it leads its own process group.
    pub own_group: bool,
    terminal: Option<Terminal>,
    /// A signal asked the runner to stop, and was forwarded.
    pub stop_requested: bool,
    guardian: Option<Guardian>,
}

impl RunningAgent {
    /// Starts the agent on the runner's standard streams.
    ///
    /// On a terminal, and without a controlling terminal, it gets its own process group. In a pipeline on a terminal
    /// it stays in the pipeline's group, like every program there.
    pub fn start(agent_command: &AgentCommand) -> io::Result<Self> {
        let mut terminal = Terminal::of_user();
        let own_group = terminal.is_some() || !terminal::is_attached();
        let mut command = Command::new(&agent_command.program);
        command.args(&agent_command.args);
        for name in &agent_command.removed_variables {
            command.env_remove(name);
        }
        command.envs(agent_command.env.iter().map(|(name, value)| (name, value)));
        if let Some((name, key)) = &agent_command.key {
            command.env(name, key.expose_secret());
        }
        if own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(terminal) = &mut terminal {
            terminal.give_foreground(pid);
            // It may have been stopped for using the terminal before it owned it.
            let _ = kill_process_group(pid, Signal::CONT);
        }
        let guardian = own_group.then(|| Guardian::of(child.id())).flatten();
        Ok(Self { pid, id: ProcessId::of(child.id()), own_group, terminal, stop_requested: false, guardian })
    }

    /// Waits for the agent to exit, forwarding signals. Cancel-safe.
    pub async fn wait(&mut self, signals: &mut Signals) -> io::Result<AgentExit> {
        loop {
            if let Some(exit) = self.poll_exit(signals).await? {
                if let Some(terminal) = &mut self.terminal {
                    terminal.take_foreground(false);
                    if matches!(exit, AgentExit::Signal(_)) {
                        terminal.reset();
                    }
                }
                if let Some(guardian) = self.guardian.take() {
                    guardian.dismiss().await;
                }
                return Ok(exit);
            }
            tokio::select! {
                _ = signals.children.recv() => {}
                _ = signals.continued.recv() => self.resume(),
                sent = next(&mut signals.forwarded) => self.forward(sent),
            }
        }
    }

    /// Checks whether the agent has exited, and suspends with it.
    async fn poll_exit(&mut self, signals: &mut Signals) -> io::Result<Option<AgentExit>> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(None) => return Ok(None),
                Ok(Some((_, status))) => {
                    if let Some(exit) = exit_of(status) {
                        return Ok(Some(exit));
                    }
                    if status.stopped() {
                        self.suspend(signals).await;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Suspends the runner like the agent, because they are one job for the shell.
    async fn suspend(&mut self, signals: &mut Signals) {
        // In a shared group, the signal has suspended the runner too.
        let Some(terminal) = &mut self.terminal else { return };
        terminal.take_foreground(true);
        let _ = kill_current_process_group(Signal::TSTP);
        let _ = tokio::time::timeout(SUSPENDED, signals.continued.recv()).await;
        self.resume();
    }

    fn resume(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        if terminal.is_foreground() {
            terminal.give_foreground(self.pid);
        }
        self.send(Signal::CONT);
    }

    fn forward(&mut self, sent: Signal) {
        let ends = matches!(sent, Signal::TERM | Signal::HUP | Signal::INT | Signal::QUIT);
        self.stop_requested |= ends;
        // In a shared group, signals from terminal keys reach the agent directly.
        if self.own_group || !matches!(sent, Signal::INT | Signal::QUIT) {
            self.send(sent);
        }
        if ends {
            // A suspended agent would not handle the signal.
            self.send(Signal::CONT);
        }
    }

    fn send(&self, signal: Signal) {
        // Fails if the agent has exited, which is fine.
        let _ = match self.own_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

async fn next(forwarded: &mut [(Signal, tokio::signal::unix::Signal)]) -> Signal {
    let waiting = forwarded.iter_mut().map(|(sent, signal)| {
        Box::pin(async move {
            signal.recv().await;
            *sent
        })
    });
    futures_util::future::select_all(waiting).await.0
}

fn exit_of(status: WaitStatus) -> Option<AgentExit> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(AgentExit::Code(code)),
        (None, Some(signal)) => Some(AgentExit::Signal(signal)),
        (None, None) => None,
    }
}
