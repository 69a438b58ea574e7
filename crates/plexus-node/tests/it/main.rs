//! Tests of a node with everything real: processes, files, links. At the other end of a link is a hub that says what it is
//! told: what is on disk when, what is sent again, and what a broken, slow or wrong hub does to a node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod code;
mod filesystem;
mod gate;
mod hosted;
#[cfg(target_os = "linux")]
mod hostile;
mod images;
mod links;
mod pace;
mod reconcile;
mod requests;
#[cfg(target_os = "linux")]
mod sandbox;
mod schema;
mod scripted;
mod sockets;
mod ssh;
mod stopping;
mod terminal;
mod workbench;
