//! How much a program and all that it starts may take.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::process::{Stat, pids};
use rustix::process::{Resource, Rlimit, getuid, setrlimit};
use serde::{Deserialize, Serialize};

/// Files and sockets that one process may have open.
const OPEN_FILES: u64 = 1024;
/// Threads for each process that is allowed; and for all of them, where few are.
const THREADS: u64 = 16;
const FEWEST_THREADS: u64 = 256;
/// A program yields to everybody else on the machine, to its warden first of all.
const YIELDS: i32 = 10;

/// What holds for a program, all that it starts included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub time: Duration,
    /// Of all processors together.
    pub cpu: Duration,
    /// Bytes.
    pub memory: u64,
    /// Bytes of one file, and of all in its folder.
    pub file: u64,
    /// Files and folders in its folder.
    pub entries: u64,
    pub processes: u64,
    /// What it may fill with files.
    pub folder: PathBuf,
    /// A file with all of its standard input.
    pub stdin: Option<PathBuf>,
}

/// The limit that a program was ended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    Time,
    Cpu,
    Memory,
    Processes,
    /// One file was larger than allowed.
    FileSize,
    /// All files together were larger, or more, than allowed.
    Disk,
    Output,
}

impl Limits {
    pub(super) fn threads(&self) -> u64 {
        self.processes.saturating_mul(THREADS).max(FEWEST_THREADS)
    }

    /// Holds this process to what the kernel can hold a process to; it is about to become the program. The kernel counts for
    /// each process by itself: what all of them take together, the warden counts.
    pub(crate) fn bind_self(&self) -> io::Result<()> {
        // Its groups are its own then, and can be signalled as such.
        rustix::process::setsid()?;
        let whole_seconds = self.cpu.as_secs() + u64::from(self.cpu.subsec_nanos() > 0);
        set(Resource::Cpu, whole_seconds, whole_seconds + 1)?;
        // Not the address space: some interpreters reserve far more of it than they ever use.
        set(Resource::Data, self.memory, self.memory)?;
        set(Resource::Fsize, self.file, self.file)?;
        set(Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
        set(Resource::Core, 0, 0)?;
        // The kernel counts all that the user runs, also elsewhere; it does not count for root.
        let most = threads_of_user().saturating_add(self.threads());
        set(Resource::Nproc, most, most)?;
        // Where the machine runs out of memory, this is what it is to get it back from. Neither is needed for a limit to hold.
        let _ = fs_err::write("/proc/self/oom_score_adj", "1000");
        let _ = rustix::process::nice(YIELDS);
        Ok(())
    }
}

/// No more than there is: a limit that is lower already stays.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let within = |wanted: u64| now.maximum.map_or(wanted, |most| most.min(wanted));
    Ok(setrlimit(resource, Rlimit { current: Some(within(soft)), maximum: Some(within(hard)) })?)
}

fn threads_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let user = getuid().as_raw();
    let own = |pid: &u32| fs_err::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == user);
    pids().filter(own).filter_map(Stat::of).map(|stat| stat.threads).sum()
}
