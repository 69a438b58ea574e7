//! Checks the free space on the disk of the data folder.

use std::path::Path;

use super::{CheckContext, Finding};

const CHECK: &str = "disk";
const MIB: u64 = 1 << 20;
/// Below the first limit the hub will soon fail, below the second one it may fail now.
const WARNING_BYTES: u64 = 1024 * MIB;
const PROBLEM_BYTES: u64 = 100 * MIB;

pub(super) fn check(context: &CheckContext) -> Finding {
    let folder = &context.config.data_dir;
    // If the folder does not exist yet, use its nearest existing parent.
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(disk) => judge(disk.f_bavail.saturating_mul(disk.f_frsize), folder),
        Err(error) => Finding::warning(CHECK, format!("cannot get the free space: {error}"), "see `df -h`"),
    }
}

fn judge(free: u64, folder: &Path) -> Finding {
    let message = format!("{} MiB free for {}", free / MIB, folder.display());
    let fix = "free space, or move the folder to a larger disk; retention.events_days limits its size";
    match free {
        ..PROBLEM_BYTES => Finding::problem(CHECK, message, fix),
        PROBLEM_BYTES..WARNING_BYTES => Finding::warning(CHECK, message, fix),
        _ => Finding::ok(CHECK, message),
    }
}

#[cfg(test)]
mod tests;
