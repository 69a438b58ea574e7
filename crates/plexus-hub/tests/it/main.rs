//! The hub over real HTTP and WebSockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod agent;
mod client;
mod conventions;
mod enrolment;
mod event_access;
mod event_ends;
mod event_replay;
mod event_sse;
mod events;
mod exactly_once;
mod examples;
mod nodes;
mod openapi;
mod outbox;
mod proxy;
mod retention;
mod schemathesis;
mod sessions;
mod tool_cost;
mod tool_defined;
mod upstreams;
