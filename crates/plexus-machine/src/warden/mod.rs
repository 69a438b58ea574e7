//! Watches a program with limits and all processes that it starts, and ends all of them.
//!
//! The warden is the launcher, which stays as the parent instead of becoming the program. As a subreaper it inherits
//! every orphaned process below it, so none escapes by double forking. It counts the resources of all processes
//! together, which kernel limits do not: those are per process, and some do not apply to root. It needs no privileges
//! and no control groups. All of this requires Linux; on other systems, no code runs.
//!
//! Its standard input is a socket to the node. When the node closes its end, because the call was cancelled or the
//! node is gone, the warden ends the program. It writes its report to the same socket after all processes have ended.

#[cfg(target_os = "linux")]
mod disk_usage;
#[cfg(target_os = "linux")]
mod ending;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod report;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod usage;
#[cfg(target_os = "linux")]
mod watch;

pub use limits::Limits;

#[cfg(target_os = "linux")]
pub(crate) use ending::end_marked;
pub(crate) use limits::Limit;
pub(crate) use report::Report;
#[cfg(target_os = "linux")]
pub(crate) use watch::watch;

/// Limits cannot be enforced on this system, so nothing is run.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watch(_: &Limits, _: &[std::ffi::OsString]) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "running code with limits requires Linux"))
}

/// Nothing was run.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_marked(_: &str) {}
