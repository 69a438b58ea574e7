//! Integration tests of the machine's tools with real processes, files, sandboxes and SSH servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod aliases;
mod code;
mod filesystem;
#[cfg(target_os = "linux")]
mod hostile;
mod images;
#[cfg(target_os = "linux")]
mod sandbox;
mod schema;
mod ssh;
mod terminal;
mod workbench;
