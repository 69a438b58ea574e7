//! Memory that processes take together.
//!
//! What the kernel counts for each process has in it what they share, so that a program which forks seems to take a multiple.
//! Only where that sum is too much, pages are counted by halves, thirds and so on, which takes the kernel longer.

use plexus_kit::process::Stat;
/// No less than what they take.
pub(super) fn at_most(processes: &[Stat]) -> u64 {
    let page = rustix::param::page_size() as u64;
    processes.iter().map(|process| process.resident.saturating_mul(page)).sum()
}

/// What they take, each page counted once.
pub(super) fn exactly(processes: &[Stat]) -> u64 {
    let page = rustix::param::page_size() as u64;
    let of = |process: &Stat| share(process.pid).unwrap_or(process.resident.saturating_mul(page));
    processes.iter().map(of).sum()
}

/// None where the kernel does not say, or says it to others only.
fn share(pid: u32) -> Option<u64> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_exactly_is_no_more_than_the_sum() {
        let own = [Stat::of(std::process::id()).unwrap()];
        let (most, exact) = (at_most(&own), exactly(&own));
        // Between the two looks it may have taken some more.
        assert!(exact > 0 && exact <= most + (16 << 20), "{exact} of {most}");
    }
}
