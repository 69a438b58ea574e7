//! Identifies processes reliably.
//!
//! The system eventually reuses the pid of an ended process. A pid together with the start time is unique until the
//! machine restarts.

use std::path::Path;

use fs_err as fs;
use plexus_kit::process::{Signal, Stat, pids};
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A process that leads a process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pid: u32,
    /// The start time in ticks since boot.
    born: u64,
}

impl Identity {
    /// The identity of a running process.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Stat::of(pid).map(|stat| Self { pid, born: stat.start_ticks })
    }

    /// Reads the identity that a process has written to a file.
    pub(super) fn written(path: &Path) -> Option<Self> {
        let stat = Stat::parse(&fs::read_to_string(path).ok()?)?;
        Some(Self { pid: stat.pid, born: stat.start_ticks })
    }

    /// The format that [`Self::written`] reads.
    pub(super) fn text(&self) -> String {
        let unknown = "0 ".repeat(16);
        format!("{} () S 0 {} {unknown}{}\n", self.pid, self.pid, self.born)
    }

    /// Whether this process is still running.
    pub(super) fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_ticks == self.born && !stat.dead)
    }

    /// Sends a signal to its process group, unless the process has ended.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && signal_group(self.pid, signal)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Sends a signal to a process group. Returns false if the group is empty.
pub(super) fn signal_group(leader: u32, signal: Signal) -> bool {
    Pid::from_raw(leader.cast_signed()).is_some_and(|leader| kill_process_group(leader, signal).is_ok())
}

/// Sends a signal to all processes of a terminal session. A shell in it creates a process group for each of its
/// commands, and one for itself if it is not the first process of the session. Returns false if no process is left.
pub(super) fn signal_session(leader: u32, signal: Signal) -> bool {
    let theirs = pids()
        .filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.session == leader && !stat.dead))
        .filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    // Count all of them, so that the signal is sent to each.
    theirs.filter(|pid| kill_process(*pid, signal).is_ok()).count() > 0
}

/// Whether a group has a process that has not ended.
pub(super) fn group_lives(leader: u32) -> bool {
    let is_there = Pid::from_raw(leader.cast_signed()).is_some_and(|it| test_kill_process_group(it).is_ok());
    // The system also counts zombies.
    is_there && members(leader).next().is_some()
}

/// The processes of a group that have not ended.
fn members(leader: u32) -> impl Iterator<Item = u32> {
    pids().filter(move |pid| Stat::of(*pid).is_some_and(|stat| stat.group == leader && !stat.dead))
}

/// Sends a signal to the remaining processes of a group whose leader has ended. Only processes with the mark in their
/// environment are signalled. Returns their number.
pub(super) fn signal_left(leader: u32, mark: &str, signal: Signal) -> usize {
    let marked = members(leader).filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    marked
        .filter(|pid| Pid::from_raw(pid.cast_signed()).is_some_and(|pid| kill_process(pid, signal).is_ok()))
        .count()
}

/// The id of the current boot; empty if the system has none.
pub(super) fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
