//! Identifies a process even if its id is reused.

use plexus_kit::process::Stat;
use serde::{Deserialize, Serialize};

/// The identity of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Start time in ticks since the boot; none if unknown.
    pub born: Option<u64>,
    /// Id of the boot.
    pub boot: Option<String>,
}

impl ProcessId {
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self { pid, born: Stat::of(pid).map(|stat| stat.start_ticks), boot: boot() }
    }

    #[must_use]
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// Whether this process is running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| !stat.dead)
    }

    /// Whether it is suspended by a signal.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.stat().is_some_and(|stat| stat.stopped)
    }

    /// None if the process is not known to be the same.
    fn stat(&self) -> Option<Stat> {
        let born = self.born?;
        let stat = Stat::of(self.pid).filter(|stat| stat.start_ticks == born)?;
        (self.boot == boot()).then_some(stat)
    }
}

fn boot() -> Option<String> {
    let id = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
