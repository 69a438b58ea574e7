//! The `plexus` program from outside: processes, signals, files and what a person sees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it measured"
)]

mod cli;
mod config;
mod crash;
mod doctor;
mod help;
mod interleaved;
mod manual;
mod quiet;
mod reload;
mod starting;
mod stopping;
mod tampered_head;
mod tampering;
mod terminal;

use plexus_testkit::Plexus;

/// The program that was built with these tests, in a home of its own.
fn plexus() -> Plexus {
    Plexus::new(env!("CARGO_BIN_EXE_plexus"))
}
