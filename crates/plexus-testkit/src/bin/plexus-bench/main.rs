//! `make bench`: the cost of a call through the hub, compared with a direct call, a bare pass-through and other
//! gateways.
//!
//! One run measures all of them, in alternating rounds with the same client, and checks every answer. Everything
//! runs on loopback and ends with the run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool that reports to its caller")]

mod args;
mod budget;
mod client;
mod contenders;
mod copy;
mod files;
mod idle;
mod load;
mod machine;
mod measure;
mod nodes;
mod process;
mod proxy;
mod report;
mod run;
mod serve;
mod wire;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Command};

/// Exit code of an interrupted program, by shell convention.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let mut args = Args::parse();
    let done = match args.command.take() {
        Some(Command::Serve { server }) => serve::run(server).map(|()| ExitCode::SUCCESS),
        Some(Command::Load(load)) => load::run(load).map(|()| ExitCode::SUCCESS),
        Some(Command::Copy(copy)) => bench(async |scratch| copy::run(copy, scratch).await),
        Some(Command::Nodes(nodes)) => bench(async |scratch| nodes::run(nodes, scratch).await),
        Some(Command::Files(files)) => bench(async |scratch| files::run(files, scratch).await),
        Some(Command::Proxy(proxy)) => bench(async |_| proxy::run(proxy).await),
        None => bench(async |scratch| report::write(&run::run(&args, scratch).await?, &args)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("plexus-bench: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs on one thread, so that the client uses less of the machine than the servers.
#[tokio::main(flavor = "current_thread")]
async fn bench(measure: impl AsyncFnOnce(&Path) -> Result<()>) -> Result<ExitCode> {
    // Install the handlers before anything is started that a signal must stop.
    let handler = |kind| signal(kind).context("a signal handler");
    let (mut interrupt, mut terminate) =
        (handler(SignalKind::interrupt())?, handler(SignalKind::terminate())?);
    let scratch = tempfile::tempdir().context("a temporary folder")?;
    // Dropping the run stops everything it has started.
    tokio::select! {
        ran = measure(scratch.path()) => ran.map(|()| ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
    }
}
