//! The `plexus` program from outside: processes, signals, files and what a person sees.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it measured"
)]

mod agents;
mod background;
mod certificates;
mod chaos;
mod cli;
mod config;
mod connecting;
mod crash;
mod database_restart;
mod db;
mod doctor;
mod event_readers;
mod folders;
mod guidance;
mod help;
mod installing;
mod interleaved;
mod logs;
mod machines;
mod manual;
mod metrics;
mod node_certificates;
mod node_machines;
mod node_policy;
mod oidc;
mod onslaught;
mod others;
mod outbox;
mod proxied;
mod proxy;
mod proxy_faults;
mod quiet;
mod reload;
mod remote;
mod rotation;
mod running;
mod screen;
mod starting;
mod stopping;
mod tampered_head;
mod tampering;
mod terminal;
mod tls;
mod tokens;
mod tool_programs;
mod traces;
mod upstream;
mod upstream_files;

use plexus_testkit::{Plexus, postgres};

/// The program that was built with these tests, in a home of its own.
fn plexus() -> Plexus {
    Plexus::new(env!("CARGO_BIN_EXE_plexus"))
}

/// The same on a fresh database of a PostgreSQL server; none where there is none.
async fn plexus_on_postgres() -> Option<Plexus> {
    Some(plexus().with("PLEXUS_DATABASE_URL", postgres::database().await?))
}
