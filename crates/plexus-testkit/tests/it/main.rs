//! Tests of the test utilities: a faulty utility makes every test worthless.

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
mod prerequisites;
mod sse;
mod stdio;
