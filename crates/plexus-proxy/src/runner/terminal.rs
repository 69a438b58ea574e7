//! The terminal that a person sits at, given to the agent and taken back.
//!
//! An agent on a terminal simply has it: no terminal is put in between, so size, signals, colours and everything else
//! that a program can do with one are what they are without a runner. What a shell does for its jobs the runner does for the
//! agent: it has a process group of its own, which the terminal belongs to while it runs, and when it is suspended the
//! runner takes the terminal back and suspends itself, so that the shell sees one job.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};

use fs_err as fs;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

const CONTROLLING: &str = "/dev/tty";
/// What a program that died may have left on: another screen, a hidden cursor, the mouse, marks around what is pasted, keys
/// in another form, colours.
const PLAIN: &str =
    "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[0m";

#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
    own: Pid,
    before: Termios,
    given: bool,
    /// How the agent had set it when it was suspended.
    held: Option<Termios>,
}

impl Terminal {
    /// The terminal, where a person sits at both ends and it is ours to give. In a pipeline it belongs to all of its
    /// programs, and stays with them.
    pub(super) fn of_person() -> Option<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        let device = fs::OpenOptions::new().read(true).write(true).open(CONTROLLING).ok()?.into_parts().0;
        let (own, before) = (getpgrp(), tcgetattr(&device).ok()?);
        let ours = tcgetpgrp(&device).is_ok_and(|group| group == own);
        ours.then_some(Self { device, own, before, given: false, held: None })
    }

    pub(super) fn give(&mut self, group: Pid) {
        if let Some(held) = self.held.take() {
            let _ = self.quietly(|device| tcsetattr(device, OptionalActions::Drain, &held));
        }
        self.given = self.quietly(|device| tcsetpgrp(device, group)).is_ok();
    }

    /// Takes it back, as it was before. `keep`: how the agent had set it is put back when it is given again.
    pub(super) fn take_back(&mut self, keep: bool) {
        if !std::mem::take(&mut self.given) {
            return;
        }
        let _ = self.quietly(|device| tcsetpgrp(device, self.own));
        self.held = if keep { tcgetattr(&self.device).ok() } else { None };
        let _ = self.quietly(|device| tcsetattr(device, OptionalActions::Drain, &self.before));
    }

    /// Whether it is ours now: a shell gives it to the job that is in front.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == self.own)
    }

    /// Takes off what a program that died has left on.
    pub(super) fn make_plain(&mut self) {
        let _ = self.device.write_all(PLAIN.as_bytes());
    }

    /// Whoever changes a terminal that is another's is stopped for it, unless the signal is held back.
    fn quietly<T>(&self, change: impl FnOnce(&File) -> rustix::io::Result<T>) -> io::Result<T> {
        let mut held = SigSet::empty();
        held.add(Signal::SIGTTOU);
        let before =
            held.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK).map_err(io::Error::from)?;
        let changed = change(&self.device);
        before.thread_set_mask().map_err(io::Error::from)?;
        Ok(changed?)
    }
}

/// Whether there is a terminal that can reach this process with its keys.
pub(super) fn is_attached() -> bool {
    fs::OpenOptions::new().read(true).open(CONTROLLING).is_ok()
}
