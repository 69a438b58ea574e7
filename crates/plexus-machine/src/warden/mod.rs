//! Watches a program that was given limits, with everything that it starts, and ends all of it.
//!
//! The warden is the launcher, which stays as the parent instead of becoming the program. The kernel gives it every process
//! below it that loses its parent, so none gets away by forking twice; and it counts what all of them take together, which
//! the limits of the kernel do not: those are for each process, and some of them not for root. It needs no rights of its
//! own and no control groups. All of that is Linux: elsewhere nothing is run.
//!
//! Its standard input is a socket to the node. When the other end is closed, because the call was cancelled or the node is
//! gone, the program ends. What became of it is written to the same socket, last of all, when nothing of it is left.

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

/// Nobody can be held to limits here, so nothing is run.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watch(_: &Limits, _: &[std::ffi::OsString]) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "code can be run with limits on Linux only"))
}

/// Nothing was run.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_marked(_: &str) {}
