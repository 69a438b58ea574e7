//! Ends all processes below the warden.
//!
//! All are stopped first, so that none can start another process or replace an ended child; then all are killed. This
//! repeats until none is found, because a process that is just being started is only found in the next round.

use std::time::{Duration, Instant};

use plexus_kit::process::{Stat, pids};
use rustix::process::{Signal, WaitOptions};

use super::tree;

/// The maximum number of rounds in which processes are stopped before the killing starts; a round that finds any is
/// followed by another.
const ROUNDS: usize = 100;
/// How long to try. A process that stays in the kernel for longer cannot be killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) struct LastProcesses {
    /// Processes that were still running.
    pub(super) found: u64,
    /// Processes that could not be killed.
    pub(super) escaped: u64,
}

/// Kills all processes of the program.
pub(super) fn end_all() -> LastProcesses {
    let own = std::process::id();
    let mut last = LastProcesses::default();
    for round in 0..ROUNDS {
        let running = tree::stop_below(own);
        last.found = last.found.max(running);
        if running == 0 && round > 0 {
            break;
        }
    }
    let began = Instant::now();
    loop {
        reap();
        let mut remaining = tree::all_below(own);
        let nobody = remaining.is_empty();
        remaining.retain(|process| !process.dead);
        let counted = remaining.iter().filter(|process| tree::counts(process)).count();
        last.found = last.found.max(counted as u64);
        if nobody {
            return last;
        }
        tree::signal_all(&remaining, Signal::KILL);
        if began.elapsed() > KILL_TIMEOUT {
            last.escaped = remaining.len() as u64;
            return last;
        }
        if remaining.iter().all(|process| process.stopped) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Ends all processes with this mark in their environment: the rest of a program whose warden was killed.
pub(crate) fn end_marked(mark: &str) {
    let own = std::process::id();
    let is_marked = |process: &Stat| {
        let environment = fs_err::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        process.pid != own && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let marked = || pids().filter_map(Stat::of).filter(|process| !process.dead && is_marked(process));
    for signal in [Signal::STOP, Signal::KILL, Signal::KILL] {
        for process in marked() {
            tree::signal(&process, signal);
        }
    }
}

fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}
