//! The dispatcher over a real database with real tokens: what a caller may see, what is recorded,
//! what one bad call does to others, and what each tool does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod aliases;
mod arguments;
mod custom;
mod hub;
mod idempotency;
mod names;
mod nodes;
mod outputs;
mod profiles;
mod recording;
mod running;
mod scopes;
mod scratchpad;
mod sessions;
mod thin;
mod todo;
