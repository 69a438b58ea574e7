//! The `plexus` binary: parses the command line, sets up logging and the runtime, and runs one command.
//!
//! The environment is read here, once, and passed down. Commands print through `output`, and end with an exit code of
//! `failure::Exit`.

mod arguments;
mod cli;
mod client;
mod commands;
mod console;
mod failure;
mod hub_file;
mod listing;
mod output;
mod remote;
mod shell;
mod short_id;
mod signals;
mod stdio;
mod stream;
mod target;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use plexus_kit::{Environment, telemetry};

use crate::cli::Cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The launcher comes first: it must stay single-threaded and must not read the environment.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == plexus_machine::launch::COMMAND) {
        return plexus_machine::launch::main(words);
    }
    let environment = Environment::of_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> =
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let json = words.iter().any(|word| word == "--json");
            return match cli::explain(&error, &words) {
                Some(failure) => output::report(&failure, json),
                None => output::usage(&error, json),
            };
        }
    };
    if let Some(filter) = cli.command.log_filter() {
        telemetry::init_from_environment(filter, &cli.command.log_environment(&environment));
        for warning in commands::variable_warnings(&environment) {
            output::warning(&warning);
        }
    }
    let json = cli.global.json;
    // Fails only if a provider is already installed, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match run(cli, &environment) {
        Ok(code) => code,
        Err(error) => output::report(&error, json),
    }
}

fn run(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    let runtime = cli.command.runtime().enable_all().build().context("cannot start the async runtime")?;
    let invocation = commands::Invocation::new(&cli.global, environment);
    runtime.block_on(cli.command.run(&invocation))
}
