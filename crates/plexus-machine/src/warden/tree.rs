//! The descendants of a process.
//!
//! Orphaned processes become children of the warden, so none leaves the tree, neither by double forking nor with a
//! new session.

use std::collections::{HashMap, HashSet};

use fs_err as fs;
use plexus_kit::process::{Stat, pids};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// The name of the running program.
const BUBBLEWRAP: &str = "bwrap";

/// The descendants of a process, found from parent to child, at most the first `limit`, so that a fork bomb cannot
/// outgrow the search. Fast, but may miss a process that is just being reparented; the next search finds it.
pub(super) fn below(root: u32, limit: usize) -> Vec<Stat> {
    if !has_lists_of_children() {
        return all_below(root);
    }
    walk(root, limit, |_| {})
}

/// Stops all descendants of a process, each before its children are listed: a stopped process starts no more, so the
/// search cannot be outrun. Returns the number of processes that were running.
pub(super) fn stop_below(root: u32) -> u64 {
    if !has_lists_of_children() {
        let mut running = all_below(root);
        running.retain(runs);
        signal_all(&running, Signal::STOP);
        return running.iter().filter(|process| counts(process)).count() as u64;
    }
    let mut stopped = 0;
    walk(root, usize::MAX, |process| {
        if runs(process) {
            stopped += u64::from(counts(process));
            signal_all(std::slice::from_ref(process), Signal::STOP);
        }
    });
    stopped
}

/// Whether it belongs to the program: bubblewrap's first process exists a moment longer than its content, and a
/// process that is just ending has no executable.
pub(super) fn counts(process: &Stat) -> bool {
    match fs::read_link(format!("/proc/{}/exe", process.pid)) {
        Ok(program) => program.file_name().is_none_or(|name| name != BUBBLEWRAP),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        // The executable of another user's process is not readable, so its name decides.
        Err(_) => {
            fs::read_to_string(format!("/proc/{}/comm", process.pid)).is_ok_and(|it| it.trim() != BUBBLEWRAP)
        }
    }
}

fn runs(process: &Stat) -> bool {
    !process.dead && !process.stopped
}

/// Visits processes from parent to child; each before its children are listed.
fn walk(root: u32, limit: usize, mut visit: impl FnMut(&Stat)) -> Vec<Stat> {
    let mut found = Vec::new();
    let mut waiting: Vec<(u32, u64)> = vec![(root, 1)];
    let mut seen = HashSet::from([root]);
    while let Some((pid, threads)) = waiting.pop() {
        for child in children(pid, threads) {
            if found.len() >= limit {
                return found;
            }
            if seen.insert(child)
                && let Some(stat) = Stat::of(child)
            {
                visit(&stat);
                waiting.push((child, stat.threads));
                found.push(stat);
            }
        }
    }
    found
}

/// The same by scanning all processes of the machine: slower, but misses no process that is not being reparented.
pub(super) fn all_below(root: u32) -> Vec<Stat> {
    let mut by_parent: HashMap<u32, Vec<Stat>> = HashMap::new();
    for stat in pids().filter_map(Stat::of) {
        by_parent.entry(stat.parent).or_default().push(stat);
    }
    let (mut found, mut waiting) = (Vec::new(), vec![root]);
    while let Some(pid) = waiting.pop() {
        let children = by_parent.remove(&pid).unwrap_or_default();
        waiting.extend(children.iter().map(|child| child.pid));
        found.extend(children);
    }
    found
}

fn has_lists_of_children() -> bool {
    let own = std::process::id();
    fs::metadata(format!("/proc/{own}/task/{own}/children")).is_ok()
}

/// Each thread has its own list.
fn children(pid: u32, threads: u64) -> Vec<u32> {
    if threads <= 1 {
        return fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .map_or(vec![], |it| numbers(&it));
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Sends a signal to these processes, and to those that they are just starting: it is sent to their process groups,
/// which the kernel does atomically. A program has its own session, so its groups contain no other processes.
pub(super) fn signal_all(processes: &[Stat], signal: Signal) {
    let own = rustix::process::getpgrp();
    let mut groups = HashSet::new();
    for process in processes {
        match Pid::from_raw(process.group.cast_signed()).filter(|group| *group != own) {
            Some(group) if groups.insert(group) => drop(kill_process_group(group, signal)),
            Some(_) => {}
            // It has not created its own session yet.
            None => self::signal(process, signal),
        }
    }
}

/// Sends a signal to exactly this process. If its pid was reused, nothing is sent.
pub(super) fn signal(process: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else { return };
    // The pid of a child is not reused before it is reaped.
    if process.parent == std::process::id() && Stat::of(process.pid).is_some_and(|now| same(&now, process)) {
        let _ = kill_process(pid, signal);
        return;
    }
    match pidfd_open(pid, PidfdFlags::empty()) {
        // Checked after opening, so the signal either reaches this process or is not sent.
        Ok(handle) if Stat::of(process.pid).is_some_and(|now| same(&now, process)) => {
            let _ = pidfd_send_signal(&handle, signal);
        }
        Err(rustix::io::Errno::NOSYS) if Stat::of(process.pid).is_some_and(|now| same(&now, process)) => {
            let _ = kill_process(pid, signal);
        }
        Ok(_) | Err(_) => {}
    }
}

fn same(now: &Stat, then: &Stat) -> bool {
    now.pid == then.pid && now.start_ticks == then.start_ticks
}
