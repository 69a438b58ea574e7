//! The MCP endpoint over real HTTP, in every revision.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod asking_tool;
mod attacks;
mod auth;
mod batches;
mod conformance;
mod host_and_origin;
mod identity;
mod inspector;
mod limits;
mod list_pages;
mod logging;
mod negotiation;
mod parked_calls;
mod profiles;
mod python;
mod questions;
mod request_validation;
mod resume;
mod revisions;
mod rmcp_models;
mod sdk_scripts;
mod session_streams;
mod sessions;
mod stateless;
mod subscriptions;
mod tools;
mod trace;
mod typescript;
mod visibility;
