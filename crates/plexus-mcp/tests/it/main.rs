//! The MCP endpoint over real HTTP, revision by revision.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking;
mod auth;
mod batches;
mod conformance;
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
mod pages;
mod parked;
mod profiles;
mod python;
mod resume;
mod revisions;
mod scripts;
mod sessions;
mod streams;
mod tools;
mod trace;
mod typescript;
mod visibility;
