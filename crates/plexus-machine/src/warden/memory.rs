//! The total memory of several processes.
//!
//! The kernel's per-process count includes shared pages, so a program that forks appears to use a multiple. Only if
//! that sum exceeds the limit are shared pages counted proportionally, which is slower.

use plexus_kit::process::Stat;
/// An upper bound of their memory.
pub(super) fn upper_bound(processes: &[Stat]) -> u64 {
    let page = rustix::param::page_size() as u64;
    processes.iter().map(|process| process.resident.saturating_mul(page)).sum()
}

/// Their memory, with each page counted once.
pub(super) fn exact(processes: &[Stat]) -> u64 {
    let page = rustix::param::page_size() as u64;
    let of = |process: &Stat| pss(process.pid).unwrap_or(process.resident.saturating_mul(page));
    processes.iter().map(of).sum()
}

/// `None` if the kernel does not provide it, or not to this user.
fn pss(pid: u32) -> Option<u64> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests;
