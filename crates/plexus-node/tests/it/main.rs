//! Tests of a node with real processes, files and links, against a scripted hub: what is on disk at which moment,
//! what is sent again, and the effect of a broken, slow or faulty hub.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod gate;
mod hosted;
mod invalid_frames;
#[cfg(target_os = "linux")]
mod policy;
mod polling;
mod reconcile;
mod scripted_hub;
mod slow_hub;
mod stopping;
mod websocket;
