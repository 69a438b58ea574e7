//! What the testkit offers, tried by itself: a tool that lies makes every test worthless.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod isolation;
mod model;
