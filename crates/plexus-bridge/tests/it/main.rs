//! Files of agents in a home of their own: changed, taken back, killed amid it, and written by others at the same moment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod conflicts;
mod crash;
mod files;
mod home;
mod instructions;
mod moments;
mod property;
