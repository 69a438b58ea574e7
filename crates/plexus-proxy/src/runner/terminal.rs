//! Hands the user's terminal to the agent and takes it back.
//!
//! The agent uses the real terminal, without a pseudo-terminal in between, so size, signals and colours work as
//! without a runner. The runner does for the agent what a shell does for its jobs: the agent has its own process
//! group, which is the foreground group while it runs. When the agent is suspended, the runner takes the terminal
//! back and suspends itself, so that the shell sees one job.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};

use fs_err as fs;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

const CONTROLLING: &str = "/dev/tty";
/// Resets what a crashed program may have left set: alternate screen, hidden cursor, mouse reporting, bracketed
/// paste, keyboard protocol, colours.
const RESET: &str =
    "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m";

#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
    own: Pid,
    before: Termios,
    /// Whether the agent has the terminal.
    is_given: bool,
    /// The agent's settings at its suspension.
    suspended_settings: Option<Termios>,
}

impl Terminal {
    /// The terminal, if it is standard input and output and the runner's group is in the foreground. In a pipeline it
    /// stays with all programs of the pipeline.
    pub(super) fn of_user() -> Option<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        let device = fs::OpenOptions::new().read(true).write(true).open(CONTROLLING).ok()?.into_parts().0;
        let (own, before) = (getpgrp(), tcgetattr(&device).ok()?);
        let ours = tcgetpgrp(&device).is_ok_and(|group| group == own);
        ours.then_some(Self { device, own, before, is_given: false, suspended_settings: None })
    }

    pub(super) fn give_foreground(&mut self, group: Pid) {
        if let Some(settings) = self.suspended_settings.take() {
            let _ = self.with_sigttou_blocked(|device| tcsetattr(device, OptionalActions::Drain, &settings));
        }
        self.is_given = self.with_sigttou_blocked(|device| tcsetpgrp(device, group)).is_ok();
    }

    /// Takes the terminal back and restores its settings. `keep`: remember the agent's settings for the next `give`.
    pub(super) fn take_foreground(&mut self, keep: bool) {
        if !std::mem::take(&mut self.is_given) {
            return;
        }
        let _ = self.with_sigttou_blocked(|device| tcsetpgrp(device, self.own));
        self.suspended_settings = if keep { tcgetattr(&self.device).ok() } else { None };
        let _ = self.with_sigttou_blocked(|device| tcsetattr(device, OptionalActions::Drain, &self.before));
    }

    /// Whether the runner's group is in the foreground.
    pub(super) fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == self.own)
    }

    /// Resets modes that a crashed program has left set.
    pub(super) fn reset(&mut self) {
        let _ = self.device.write_all(RESET.as_bytes());
    }

    /// Runs `change` with SIGTTOU blocked, which would otherwise stop a background process that changes the terminal.
    fn with_sigttou_blocked<T>(&self, change: impl FnOnce(&File) -> rustix::io::Result<T>) -> io::Result<T> {
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before =
            blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK).map_err(io::Error::from)?;
        let changed = change(&self.device);
        before.thread_set_mask().map_err(io::Error::from)?;
        Ok(changed?)
    }
}

/// Whether this process has a controlling terminal.
pub(super) fn is_attached() -> bool {
    fs::OpenOptions::new().read(true).open(CONTROLLING).is_ok()
}
