//! The `plexus` binary: parses the command line, sets up logs and the runtime, runs one command.
//!
//! The environment is read here, once, and handed down. Everything a command prints goes through
//! `output`; how it ended is an exit code of `failure::Exit`.

mod arguments;
mod cli;
mod client;
mod commands;
mod failure;
mod listing;
mod output;
mod target;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use plexus_kit::Environment;
use plexus_kit::telemetry::{self, Options};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let environment = Environment::of_process();
    let cli = Cli::parse();
    // Fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // Held to the end: what was traced until then is sent when it is dropped.
    let _telemetry = telemetry::init(&match cli.command.is_hub() {
        true => Options::of_logs(&environment, "info").with_traces(&environment),
        false => Options::of_logs(&environment, "warn"),
    });
    match start(cli, &environment) {
        Ok(code) => code,
        Err(error) => output::report(&error),
    }
}

fn start(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    // A client waits for one answer at a time; only the hub has work for several threads.
    let mut builder = match cli.command.is_hub() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().context("cannot start the async runtime")?;
    runtime.block_on(dispatch(cli, environment))
}

async fn dispatch(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    let invocation = commands::Invocation::new(&cli.global, environment);
    match cli.command {
        Command::Up(args) => commands::up::run(args, environment).await,
        Command::Token(args) => commands::token::run(args, &invocation).await,
        Command::Tools(args) => commands::tools::run(args, &invocation).await,
        Command::Sessions(args) => commands::sessions::run(args, &invocation).await,
        Command::Audit(args) => commands::audit::run(args, &invocation).await,
        Command::Status => commands::status::run(&invocation).await,
    }
}
