//! What the testkit offers, tried by itself: a tool that lies makes every test worthless.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod bench;
mod clients;
mod conformance;
mod eras;
mod gateway;
mod isolation;
mod model;
mod sse;
mod stdio;
