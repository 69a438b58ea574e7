//! Resource limits of a program including all processes that it starts.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plexus_kit::process::{Stat, pids};
use rustix::process::{Resource, Rlimit, getuid, setrlimit};
use serde::{Deserialize, Serialize};

/// The maximum number of open files and sockets of a process.
const OPEN_FILES: u64 = 1024;
/// The number of threads per allowed process, and the minimum in total.
const THREADS: u64 = 16;
const FEWEST_THREADS: u64 = 256;
/// The nice value: the program yields to everything else on the machine, in particular to its warden.
const YIELDS: i32 = 10;

/// The limits of a program, including all processes that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub time: Duration,
    /// Of all processors together.
    pub cpu: Duration,
    /// Bytes.
    pub memory: u64,
    /// Bytes of one file, and of all files in its folder.
    pub file: u64,
    /// Files and folders in its folder.
    pub entries: u64,
    pub processes: u64,
    /// The folder in which it may create files.
    pub folder: PathBuf,
    /// A file with its complete standard input.
    pub stdin: Option<PathBuf>,
}

/// The limit for which a program was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    Time,
    Cpu,
    Memory,
    Processes,
    /// A single file was larger than allowed.
    FileSize,
    /// All files together were larger or more numerous than allowed.
    Disk,
    Output,
}

impl Limits {
    pub(super) fn threads(&self) -> u64 {
        self.processes.saturating_mul(THREADS).max(FEWEST_THREADS)
    }

    /// Applies the limits that the kernel enforces to this process, which is about to become the program. The kernel
    /// counts per process; the warden counts the total.
    pub(crate) fn bind_self(&self) -> io::Result<()> {
        // Its process groups then contain no other processes and can be signalled.
        rustix::process::setsid()?;
        let whole_seconds = self.cpu.as_secs() + u64::from(self.cpu.subsec_nanos() > 0);
        set(Resource::Cpu, whole_seconds, whole_seconds + 1)?;
        // Not the address space, of which some interpreters reserve far more than they use.
        set(Resource::Data, self.memory, self.memory)?;
        set(Resource::Fsize, self.file, self.file)?;
        set(Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
        set(Resource::Core, 0, 0)?;
        // The kernel counts all processes of the user, including those elsewhere; it does not limit root.
        let limit = threads_of_user().saturating_add(self.threads());
        set(Resource::Nproc, limit, limit)?;
        // If the machine runs out of memory, this process is killed first. Both settings are optional.
        let _ = fs_err::write("/proc/self/oom_score_adj", "1000");
        let _ = rustix::process::nice(YIELDS);
        Ok(())
    }
}

/// Never raises a limit that is already lower.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let within = |requested: u64| now.maximum.map_or(requested, |limit| limit.min(requested));
    Ok(setrlimit(resource, Rlimit { current: Some(within(soft)), maximum: Some(within(hard)) })?)
}

fn threads_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let user = getuid().as_raw();
    let own = |pid: &u32| fs_err::metadata(format!("/proc/{pid}")).is_ok_and(|about| about.uid() == user);
    pids().filter(own).filter_map(Stat::of).map(|stat| stat.threads).sum()
}
