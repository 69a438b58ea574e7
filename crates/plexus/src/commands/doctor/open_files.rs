//! Checks the limit of open files.

use rustix::process::{Resource, getrlimit};

use super::Finding;

const CHECK: &str = "open files";
/// Connections of a hub, plus other files.
const WANTED: u64 = 8_192 + 256;

pub(super) fn check() -> Finding {
    // The hub raises its soft limit to this hard limit.
    judge(getrlimit(Resource::Nofile).maximum)
}

fn judge(limit: Option<u64>) -> Finding {
    match limit {
        Some(most) if most < WANTED => {
            let message =
                format!("a process may have {most}: the hub accepts fewer connections than with {WANTED}");
            Finding::warning(
                CHECK,
                message,
                format!("start the hub after `ulimit -n {WANTED}`, or set LimitNOFILE={WANTED} in its unit"),
            )
        }
        Some(most) => Finding::ok(CHECK, format!("a process may have {most}")),
        None => Finding::ok(CHECK, "a process may have any number"),
    }
}

#[cfg(test)]
mod tests;
