//! Measures the resources of a program including all processes that it starts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use plexus_kit::process::Stat;

use super::disk_usage::{self, SpaceUsed};
use super::{Limit, Limits, memory, tree};

/// The minimum interval between expensive measurements, and its factor relative to their cost.
const DISK_INTERVAL: Duration = Duration::from_millis(60);
const PART: u32 = 5;
/// Processes that a sandbox adds to those of the program.
const SANDBOX: u64 = 2;

pub(super) struct Usage<'l> {
    limits: &'l Limits,
    own: u32,
    /// CPU ticks of the running processes, by pid and start time.
    running: HashMap<(u32, u64), u64>,
    /// CPU ticks of ended processes, as far as observed.
    ended_ticks: u64,
    /// The highest count so far, in ticks.
    ticks: u64,
    /// The highest value observed, in bytes.
    pub(super) memory: u64,
    pub(super) processes: u64,
    exact_at: Option<Instant>,
    room_at: Option<Instant>,
}

impl<'l> Usage<'l> {
    pub(super) fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            own: std::process::id(),
            running: HashMap::new(),
            ended_ticks: 0,
            ticks: 0,
            memory: 0,
            processes: 0,
            exact_at: None,
            room_at: None,
        }
    }

    /// Measures all processes. Returns a limit that they exceed.
    pub(super) fn check(&mut self) -> Option<Limit> {
        let limit = self.limits.processes + SANDBOX;
        // One more than allowed is enough to know.
        let everybody = tree::below(self.own, usize::try_from(limit + 1).unwrap_or(usize::MAX));
        let living: Vec<Stat> = everybody.iter().filter(|process| !process.dead).cloned().collect();
        // Zombies occupy pids as well and are limited too.
        let (count, threads) = (everybody.len() as u64, living.iter().map(|it| it.threads).sum::<u64>());
        self.processes = self.processes.max(count);
        if count > limit || threads > self.limits.threads() {
            return Some(Limit::Processes);
        }
        self.count_ticks(&everybody);
        if self.cpu() > self.limits.cpu {
            return Some(Limit::Cpu);
        }
        self.memory_exceeded(&living).or_else(|| self.space_exceeded(&living))
    }

    fn count_ticks(&mut self, everybody: &[Stat]) {
        let now: HashMap<_, _> = everybody.iter().map(|it| ((it.pid, it.start_ticks), it.ticks)).collect();
        let ended_ticks = self.running.iter().filter(|(process, _)| !now.contains_key(process));
        self.ended_ticks += ended_ticks.map(|(_, ticks)| ticks).sum::<u64>();
        // One count includes all reaped processes, the other all observed ones. Programs decide whether their
        // children are reaped, so the larger count applies.
        let seen = self.ended_ticks + now.values().sum::<u64>();
        let waited = everybody.iter().map(|it| it.ticks + it.waited_ticks).sum::<u64>();
        let by_us = Stat::of(self.own).map_or(0, |own| own.waited_ticks);
        self.ticks = self.ticks.max(seen).max(waited + by_us);
        self.running = now;
    }

    fn cpu(&self) -> Duration {
        let a_second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_millis(self.ticks.saturating_mul(1_000) / a_second)
    }

    /// The total after all processes have ended.
    pub(super) fn cpu_in_all(&mut self) -> Duration {
        self.count_ticks(&[]);
        self.cpu()
    }

    fn memory_exceeded(&mut self, living: &[Stat]) -> Option<Limit> {
        let mut used_memory = memory::upper_bound(living);
        if used_memory > self.limits.memory {
            if self.exact_at.is_some_and(|at| Instant::now() < at) {
                return None;
            }
            let began = Instant::now();
            used_memory = memory::exact(living);
            self.exact_at = Some(Instant::now() + (began.elapsed() * PART).max(DISK_INTERVAL));
        }
        self.memory = self.memory.max(used_memory);
        (used_memory > self.limits.memory).then_some(Limit::Memory)
    }

    fn space_exceeded(&mut self, living: &[Stat]) -> Option<Limit> {
        if self.room_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let began = Instant::now();
        let SpaceUsed { bytes, entries } =
            disk_usage::measure(&self.limits.folder, self.limits.entries, living);
        self.room_at = Some(Instant::now() + (began.elapsed() * PART).max(DISK_INTERVAL));
        (bytes > self.limits.file || entries > self.limits.entries).then_some(Limit::Disk)
    }
}
