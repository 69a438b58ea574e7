//! Whether the signed head of the audit is there: without it, nobody can tell whether entries at the
//! end were taken away.

use super::{Finding, Subject};

const CHECK: &str = "audit";

pub(super) fn check(subject: &Subject, has_database: bool) -> Option<Finding> {
    let head = subject.config.data_dir.join("audit.head");
    if head.exists() {
        return Some(Finding::ok(CHECK, "its signed head is there"));
    }
    has_database.then(|| {
        let message = format!("{} is missing: entries may have been taken from the end", head.display());
        let fix =
            "put it back from where it was moved to; a hub that starts without it records that as a break";
        Finding::problem(CHECK, message, fix)
    })
}
