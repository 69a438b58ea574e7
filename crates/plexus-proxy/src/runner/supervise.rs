//! An agent at work: started, waited for, suspended with the job it is part of, and told what its runner is told.

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
use super::{Ending, ProcessId};

/// A job that is suspended is not looked at before somebody goes on with it. One that nobody could go on with, because
/// there is no shell, is not suspended by the system at all; then this is how long it seems to be.
const SUSPENDED: Duration = Duration::from_millis(200);

/// What an agent is started with.
#[derive(Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// The one variable with a secret in it.
    pub key: Option<(String, Secret)>,
    /// Variables of ours that it does not get.
    pub without: Vec<String>,
}

/// What reaches a runner from outside. Made before the agent is started, so that nothing of it is missed.
#[derive(Debug)]
pub struct Signals {
    children: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    passed: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
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
            passed: kinds
                .into_iter()
                .map(|(sent, kind)| Ok((sent, signal(kind)?)))
                .collect::<io::Result<_>>()?,
        })
    }

    /// The next signal that is meant for the agent.
    pub async fn next(&mut self) -> Signal {
        next(&mut self.passed).await
    }
}

/// An agent that was started.
#[derive(Debug)]
pub struct Agent {
    pid: Pid,
    pub id: ProcessId,
    /// Whether it leads a group of its own.
    pub own_group: bool,
    terminal: Option<Terminal>,
    /// Somebody asked the runner to end, and it passed that on.
    pub was_asked: bool,
    guardian: Option<Guardian>,
}

impl Agent {
    /// Starts it on our own standard streams.
    ///
    /// On a terminal of a person, and where no terminal can reach us, it has a process group of its own. In a pipeline that
    /// was typed at a terminal it stays in the group of the pipeline, as every program there does.
    pub fn start(launch: &Launch) -> io::Result<Self> {
        let mut terminal = Terminal::of_person();
        let own_group = terminal.is_some() || !terminal::is_attached();
        let mut command = Command::new(&launch.program);
        command.args(&launch.args);
        for name in &launch.without {
            command.env_remove(name);
        }
        command.envs(launch.env.iter().map(|(name, value)| (name, value)));
        if let Some((name, key)) = &launch.key {
            command.env(name, key.expose_secret());
        }
        if own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(terminal) = &mut terminal {
            terminal.give(pid);
            // It may have looked at the terminal before that was its own, and been stopped for it.
            let _ = kill_process_group(pid, Signal::CONT);
        }
        let guardian = own_group.then(|| Guardian::of(child.id())).flatten();
        Ok(Self { pid, id: ProcessId::of(child.id()), own_group, terminal, was_asked: false, guardian })
    }

    /// Waits for its end, and passes on what it is told meanwhile. Cancelled, it can be called again.
    pub async fn end(&mut self, signals: &mut Signals) -> io::Result<Ending> {
        loop {
            if let Some(ending) = self.look(signals).await? {
                if let Some(terminal) = &mut self.terminal {
                    terminal.take_back(false);
                    if matches!(ending, Ending::Signal(_)) {
                        terminal.make_plain();
                    }
                }
                if let Some(guardian) = self.guardian.take() {
                    guardian.call_off().await;
                }
                return Ok(ending);
            }
            tokio::select! {
                _ = signals.children.recv() => {}
                _ = signals.continued.recv() => self.go_on(),
                sent = next(&mut signals.passed) => self.pass_on(sent),
            }
        }
    }

    /// What became of it since.
    async fn look(&mut self, signals: &mut Signals) -> io::Result<Option<Ending>> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(None) => return Ok(None),
                Ok(Some((_, status))) => {
                    if let Some(ending) = ending(status) {
                        return Ok(Some(ending));
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

    /// The agent was suspended: so are we, for the shell that has us as one job.
    async fn suspend(&mut self, signals: &mut Signals) {
        // In a group that is not its own, whoever suspended it has suspended us as well.
        let Some(terminal) = &mut self.terminal else { return };
        terminal.take_back(true);
        let _ = kill_current_process_group(Signal::TSTP);
        let _ = tokio::time::timeout(SUSPENDED, signals.continued.recv()).await;
        self.go_on();
    }

    fn go_on(&mut self) {
        let Some(terminal) = &mut self.terminal else { return };
        if terminal.is_ours() {
            terminal.give(self.pid);
        }
        self.send(Signal::CONT);
    }

    fn pass_on(&mut self, sent: Signal) {
        let ends = matches!(sent, Signal::TERM | Signal::HUP | Signal::INT | Signal::QUIT);
        self.was_asked |= ends;
        // The keys of a terminal reach the whole group, and the agent with it.
        if self.own_group || !matches!(sent, Signal::INT | Signal::QUIT) {
            self.send(sent);
        }
        if ends {
            // It would not hear of it while it is suspended.
            self.send(Signal::CONT);
        }
    }

    fn send(&self, signal: Signal) {
        // It fails when nobody is left, as it should be.
        let _ = match self.own_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

async fn next(passed: &mut [(Signal, tokio::signal::unix::Signal)]) -> Signal {
    let waiting = passed.iter_mut().map(|(sent, signal)| {
        Box::pin(async move {
            signal.recv().await;
            *sent
        })
    });
    futures_util::future::select_all(waiting).await.0
}

fn ending(status: WaitStatus) -> Option<Ending> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Ending::Code(code)),
        (None, Some(signal)) => Some(Ending::Signal(signal)),
        (None, None) => None,
    }
}
