//! Servers behind the hub: single connections, and what clients of the hub get from them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bridging;
mod conformance_bridge;
mod offers;
mod params;
mod question_directions;
mod sdk_questions;
mod subscriptions;
mod tasks;
mod upstream;
mod upstream_http;
mod upstream_oauth;
