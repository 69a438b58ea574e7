//! Ends everything below the warden.
//!
//! First all are stopped, so that nobody can start another one or answer the end of its child with a new one; then all are
//! killed. It goes on until nobody is found: one who was being started in that very moment is found at the next look.

use std::time::{Duration, Instant};

use plexus_kit::process::{Stat, pids};
use rustix::process::{Signal, WaitOptions};

use super::tree;

/// Rounds in which all are stopped before any is killed, at most: one is followed by another while it finds somebody.
const ROUNDS: usize = 100;
/// How long it is tried. Who is in the kernel for as long cannot be ended by anybody.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) struct Last {
    /// Processes that were still there.
    pub(super) found: u64,
    /// And are there yet.
    pub(super) escaped: u64,
}

/// Nothing of the program is there afterwards.
pub(super) fn end_all() -> Last {
    let own = std::process::id();
    let mut last = Last::default();
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
        let mut left = tree::all_below(own);
        let nobody = left.is_empty();
        left.retain(|process| !process.dead);
        let counted = left.iter().filter(|process| tree::counts(process)).count();
        last.found = last.found.max(counted as u64);
        if nobody {
            return last;
        }
        tree::signal_all(&left, Signal::KILL);
        if began.elapsed() > PATIENCE {
            last.escaped = left.len() as u64;
            return last;
        }
        if left.iter().all(|process| process.stopped) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Ends those who have this in their environment, wherever they are: what is left of a program whose warden is gone.
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
