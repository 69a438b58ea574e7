//! The `plexus` program from outside: processes, signals, files and output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and prints what it measured"
)]

mod agents;
mod background;
mod certificates;
mod chaos;
mod cli;
mod concurrent_sessions;
mod config;
mod connect;
mod crash;
mod custom_tools;
mod data_folders;
mod database_restart;
mod db;
mod doctor;
mod event_readers;
mod help;
mod hints;
mod hostile_requests;
mod install;
mod keep_alive;
mod key_rotation;
mod logs;
mod man_pages;
mod metrics;
mod node_certificates;
mod node_lifecycle;
mod node_policy;
mod node_routing;
mod nodes;
mod oidc;
mod outbox;
mod proxy;
mod proxy_client;
mod proxy_faults;
mod pty;
mod reload;
mod remote;
mod run;
mod shutdown;
mod startup;
mod status;
mod tampered_head;
mod tampering;
mod terminal;
mod third_party;
mod tls;
mod tokens;
mod traces;
mod upstream;
mod upstream_files;

use std::path::Path;

use plexus_testkit::{Plexus, postgres};

/// The program built with these tests, in a new home.
fn plexus() -> Plexus {
    Plexus::new(env!("CARGO_BIN_EXE_plexus"))
}

/// The same on a new PostgreSQL database; `None` without a server.
async fn plexus_on_postgres() -> Option<Plexus> {
    Some(plexus().with("PLEXUS_DATABASE_URL", postgres::database().await?))
}

/// The folder of the program, for a `PATH`.
fn program_folder() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_plexus")).parent().expect("a folder");
    folder.display().to_string()
}
