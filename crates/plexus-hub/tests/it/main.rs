//! The hub over real HTTP and WebSockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agent;
mod event_access;
mod event_ends;
mod event_replay;
mod event_sse;
