//! Tests of a node with everything real: processes, files, links. At the other end of a link is a scripted hub: what is on
//! disk when, what is sent again, and what a broken, slow or wrong hub does to a node.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod gate;
mod hosted;
mod links;
mod pace;
#[cfg(target_os = "linux")]
mod policy;
mod reconcile;
mod requests;
mod scripted;
mod sockets;
mod stopping;
