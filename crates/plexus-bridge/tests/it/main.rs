//! Tests of changes to agent files in a temporary home folder: conflicts, crashes, and concurrent writers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod conflicts;
mod crash;
mod files;
mod home;
mod instructions;
mod moments;
mod property;
