//! Whether there is room where the data folder is.

use std::path::Path;

use super::{Finding, Subject};

const CHECK: &str = "disk";
const MIB: u64 = 1 << 20;
/// With less than this a hub stops working soon, and with less than that now.
const LITTLE: u64 = 1024 * MIB;
const NONE: u64 = 100 * MIB;

pub(super) fn check(subject: &Subject) -> Finding {
    let folder = &subject.config.data_dir;
    // A folder that is not there yet will be made below one that is.
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(disk) => judge(disk.f_bavail.saturating_mul(disk.f_frsize), folder),
        Err(error) => {
            Finding::warning(CHECK, format!("cannot tell how much room there is: {error}"), "see `df -h`")
        }
    }
}

fn judge(free: u64, folder: &Path) -> Finding {
    let message = format!("{} MiB free for {}", free / MIB, folder.display());
    let fix = "make room, or move the folder to a larger disk; retention.events_days keeps it small";
    match free {
        ..NONE => Finding::problem(CHECK, message, fix),
        NONE..LITTLE => Finding::warning(CHECK, message, fix),
        _ => Finding::ok(CHECK, message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::{MIB, judge};

    #[test]
    fn a_full_disk_is_found_before_it_is_full() {
        let level = |mib: u64| judge(mib * MIB, "/d".as_ref()).level;
        assert_eq!(
            [99, 100, 1023, 1024].map(level),
            [Level::Problem, Level::Warning, Level::Warning, Level::Ok]
        );
    }
}
