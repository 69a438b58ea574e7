//! Process metrics from the operating system, under the conventional names.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Metrics, count};

pub(super) fn register(metrics: &Metrics) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
    metrics.read(
        "process_start_time_seconds",
        "Start time of the process in seconds since 1970",
        move || started,
    );
    metrics.read("process_resident_memory_bytes", "Resident memory of the process", resident_bytes);
    metrics.read("process_open_fds", "Open files and connections", open_files);
}

/// `None` if the operating system does not provide it in this form.
fn resident_bytes() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn open_files() -> Option<f64> {
    // One entry is the directory being read.
    count(fs_err::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}
