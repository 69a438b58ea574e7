//! Servers behind the hub: connections to single ones, and what clients of a hub get of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking_ways;
mod bridging;
mod conformance_bridge;
mod offers;
mod params;
mod sdk_asked;
mod subscriptions;
mod tasks;
mod upstream;
mod upstream_http;
mod upstream_oauth;
