//! The state of a process as reported in `/proc`.

use fs_err as fs;

/// The fields of `/proc/<pid>/stat` that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    /// The process has exited and is a zombie.
    pub dead: bool,
    /// The process is stopped by a signal or a debugger.
    pub stopped: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// CPU time in ticks.
    pub ticks: u64,
    /// CPU time of all descendants that have exited and were waited for, in ticks.
    pub waited_ticks: u64,
    pub threads: u64,
    /// Start time in ticks since boot.
    pub start_ticks: u64,
    /// Resident pages, including shared ones.
    pub resident: u64,
}

impl Stat {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The program name is in parentheses and may contain any character.
        let (before, after) = text.rsplit_once(')')?;
        let pid = before.split(' ').next()?.parse().ok()?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        Some(Self {
            pid,
            dead: matches!(*fields.first()?, "Z" | "X"),
            stopped: matches!(*fields.first()?, "T" | "t"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            waited_ticks: number(13)? + number(14)?,
            threads: number(17)?,
            start_ticks: number(19)?,
            resident: number(21).unwrap_or(0),
        })
    }

    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        // Read as bytes, because a program name may not be UTF-8.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }
}

/// Ids of all running processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten();
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests;
