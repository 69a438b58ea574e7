//! The REST API over real HTTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod conventions;
mod events;
mod examples;
mod openapi;
mod schemathesis;
mod sessions;
