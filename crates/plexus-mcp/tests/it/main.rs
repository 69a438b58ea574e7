//! The MCP endpoint over real HTTP, revision by revision.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking;
mod asking_ways;
mod auth;
mod batches;
mod bridging;
mod conformance;
mod conformance_bridge;
mod curious;
mod guard;
mod hostile;
mod identity;
mod inspector;
mod ladder;
mod limits;
mod listen;
mod logging;
mod models;
mod modern;
mod negotiation;
mod offers;
mod pages;
mod params;
mod parked;
mod profiles;
mod python;
mod resume;
mod revisions;
mod scripts;
mod sdk_asked;
mod sessions;
mod streams;
mod subscriptions;
mod tasks;
mod tools;
mod trace;
mod typescript;
mod upstream;
mod upstream_http;
mod upstream_oauth;
mod visibility;
