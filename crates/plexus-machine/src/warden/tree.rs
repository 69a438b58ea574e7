//! All that a process has started, and what they have started in turn.
//!
//! Whoever loses its parent becomes a child of the warden, so nothing leaves the tree: neither by a second fork nor by a
//! session of its own.

use std::collections::{HashMap, HashSet};

use fs_err as fs;
use plexus_kit::process::{Stat, pids};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// What it is called where it runs.
const BUBBLEWRAP: &str = "bwrap";

/// Everybody below a process, found from parent to child, or the first `most` of them: with many, a look must not take longer
/// than they take to become more. Quick, and may miss who is just being moved: the next look finds them.
pub(super) fn below(root: u32, most: usize) -> Vec<Stat> {
    if !has_lists_of_children() {
        return all_below(root);
    }
    walk(root, most, |_| {})
}

/// Stops everybody below a process, each before it is looked at whom it has started: who is stopped starts no more, so nobody gets
/// ahead of this. Says how many of them ran.
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

/// Whether it is the program's: the first process in a sandbox of bubblewrap is there a moment longer than what it holds, and
/// one that is just ending has no program any more.
pub(super) fn counts(process: &Stat) -> bool {
    match fs::read_link(format!("/proc/{}/exe", process.pid)) {
        Ok(program) => program.file_name().is_none_or(|name| name != BUBBLEWRAP),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        // Another's: what it is called has to do.
        Err(_) => {
            fs::read_to_string(format!("/proc/{}/comm", process.pid)).is_ok_and(|it| it.trim() != BUBBLEWRAP)
        }
    }
}

fn runs(process: &Stat) -> bool {
    !process.dead && !process.stopped
}

/// From parent to child; each is told before its own children are looked for.
fn walk(root: u32, most: usize, mut tell: impl FnMut(&Stat)) -> Vec<Stat> {
    let mut found = Vec::new();
    let mut waiting: Vec<(u32, u64)> = vec![(root, 1)];
    let mut seen = HashSet::from([root]);
    while let Some((pid, threads)) = waiting.pop() {
        for child in children(pid, threads) {
            if found.len() >= most {
                return found;
            }
            if seen.insert(child)
                && let Some(stat) = Stat::of(child)
            {
                tell(&stat);
                waiting.push((child, stat.threads));
                found.push(stat);
            }
        }
    }
    found
}

/// The same from a look at all processes of the machine: slower, and misses nobody who stays where they are.
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

/// Each thread has its own.
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

/// Sends a signal to all of these, and to whoever they are starting in this moment: to their groups, which the kernel does at
/// once for all who are in one. A program is in a session of its own, so none of its groups has anybody else in it.
pub(super) fn signal_all(processes: &[Stat], signal: Signal) {
    let own = rustix::process::getpgrp();
    let mut groups = HashSet::new();
    for process in processes {
        match Pid::from_raw(process.group.cast_signed()).filter(|group| *group != own) {
            Some(group) if groups.insert(group) => drop(kill_process_group(group, signal)),
            Some(_) => {}
            // It has not got as far as a session of its own.
            None => self::signal(process, signal),
        }
    }
}

/// Sends a signal to this very process. Its number may be another's by now: then nobody gets it.
pub(super) fn signal(process: &Stat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else { return };
    // A child of ours keeps its number until we ask about it.
    if process.parent == std::process::id() && Stat::of(process.pid).is_some_and(|now| same(&now, process)) {
        let _ = kill_process(pid, signal);
        return;
    }
    match pidfd_open(pid, PidfdFlags::empty()) {
        // What is looked at after it was opened is what was opened, or the signal goes nowhere.
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
    now.pid == then.pid && now.born == then.born
}
