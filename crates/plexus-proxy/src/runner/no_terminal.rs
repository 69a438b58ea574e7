//! For platforms without terminal handover: the agent stays in the process group of the runner and shares the terminal.

use rustix::process::Pid;

#[derive(Debug)]
pub(super) struct Terminal;

impl Terminal {
    pub(super) fn of_user() -> Option<Self> {
        None
    }

    pub(super) fn give_foreground(&mut self, _: Pid) {}

    pub(super) fn take_foreground(&mut self, _: bool) {}

    pub(super) fn is_foreground(&self) -> bool {
        false
    }

    pub(super) fn reset(&mut self) {}
}

pub(super) fn is_attached() -> bool {
    fs_err::OpenOptions::new().read(true).open("/dev/tty").is_ok()
}
