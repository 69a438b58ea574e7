//! Processes that cannot be mistaken for others.
//!
//! The system gives the number of a process that has ended to another one some day. Number and time of birth together
//! are given once, until the machine is started again.

use std::path::Path;

use fs_err as fs;
use plexus_kit::process::{Signal, Stat, pids};
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A process that leads a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pid: u32,
    /// In ticks since the machine was started.
    born: u64,
}

impl Identity {
    /// Of a process that is there now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Stat::of(pid).map(|stat| Self { pid, born: stat.born })
    }

    /// From what a process has written down of itself.
    pub(super) fn written(path: &Path) -> Option<Self> {
        let stat = Stat::parse(&fs::read_to_string(path).ok()?)?;
        Some(Self { pid: stat.pid, born: stat.born })
    }

    /// As [`Self::written`] reads it.
    pub(super) fn text(&self) -> String {
        let unknown = "0 ".repeat(16);
        format!("{} () S 0 {} {unknown}{}\n", self.pid, self.pid, self.born)
    }

    /// Whether this very process still runs.
    pub(super) fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.born == self.born && !stat.dead)
    }

    /// Sends a signal to its group, unless the process is gone.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && signal_group(self.pid, signal)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Sends a signal to a group; false when nobody is in it.
pub(super) fn signal_group(leader: u32, signal: Signal) -> bool {
    Pid::from_raw(leader.cast_signed()).is_some_and(|leader| kill_process_group(leader, signal).is_ok())
}

/// Sends a signal to all who have the terminal that a process leads: a shell in it gives a group of its own to each of its
/// commands and to itself, where it is not the first process there. False when nobody is left.
pub(super) fn signal_session(leader: u32, signal: Signal) -> bool {
    let theirs = pids()
        .filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.session == leader && !stat.dead))
        .filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    // All of them, not only the first.
    theirs.filter(|pid| kill_process(*pid, signal).is_ok()).count() > 0
}

/// Whether anybody is in a group who has not ended.
pub(super) fn group_lives(leader: u32) -> bool {
    let is_there = Pid::from_raw(leader.cast_signed()).is_some_and(|it| test_kill_process_group(it).is_ok());
    // The system counts also those that have ended and that nobody has asked about.
    is_there && members(leader).next().is_some()
}

/// Those of a group who have not ended.
fn members(leader: u32) -> impl Iterator<Item = u32> {
    pids().filter(move |pid| Stat::of(*pid).is_some_and(|stat| stat.group == leader && !stat.dead))
}

/// Sends a signal to those of a group whose leader is gone, and to nobody else: they have this in their environment.
/// Says how many there were.
pub(super) fn signal_left(leader: u32, mark: &str, signal: Signal) -> usize {
    let marked = members(leader).filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    marked
        .filter(|pid| Pid::from_raw(pid.cast_signed()).is_some_and(|pid| kill_process(pid, signal).is_ok()))
        .count()
}

/// Names the time since the machine was started last; empty where the system has no such name.
pub(super) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_birth() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { born: own.born + 1, ..own.clone() }.is_alive(), "another with the same number");
    }

    #[test]
    fn what_is_written_down_is_read_again_whatever_the_program_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("born");
        let own = Identity::of(std::process::id()).unwrap();
        for text in [own.text(), fs::read_to_string("/proc/self/stat").unwrap()] {
            fs::write(&path, text).unwrap();
            assert_eq!(Identity::written(&path), Some(own.clone()));
        }
    }
}
