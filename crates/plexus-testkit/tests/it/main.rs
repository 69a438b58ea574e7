//! The fixture server, tested before anything is tested with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod clients;
mod conformance;
mod eras;
mod gateway;
mod stdio;
