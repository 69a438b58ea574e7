//! The `plexus` binary: parses the command line, sets up logs and the runtime, runs one command.
//!
//! The environment is read here, once, and handed down. Everything a command prints goes through
//! `output`; how it ended is an exit code of `failure::Exit`.

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
mod standard;
mod stream;
mod target;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use plexus_kit::{Environment, telemetry};

use crate::cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: it is to have one thread and to look at nothing.
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
            return match commands::upstream::missing_separator(&error, &words) {
                Some(failure) => output::report(&failure, json),
                None => output::usage(&error, json),
            };
        }
    };
    // The hub's log is part of its configuration, which is read later.
    if !cli.command.is_hub() {
        // What the doctor finds stands in its report; the same as lines of a log would only be in the way.
        let filter = match &cli.command {
            Command::Doctor(_) => "off",
            // The terminal is the agent's.
            Command::Run(_) => "off",
            command if command.is_node() => "info",
            _ => "warn",
        };
        telemetry::init_from_environment(filter, &environment);
        for warning in commands::variable_warnings(&environment) {
            output::warning(&warning);
        }
    }
    let json = cli.global.json;
    // Fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match start(cli, &environment) {
        Ok(code) => code,
        Err(error) => output::report(&error, json),
    }
}

fn start(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    // A client waits for one answer at a time; only a hub and a node have work for several threads.
    let mut builder = match cli.command.is_hub() || cli.command.is_node() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().context("cannot start the async runtime")?;
    runtime.block_on(dispatch(cli, environment))
}

async fn dispatch(cli: Cli, environment: &Environment) -> anyhow::Result<ExitCode> {
    let invocation = commands::Invocation::new(&cli.global, environment);
    match cli.command {
        Command::Up(args) => commands::up::run(args, environment, &invocation.out).await,
        Command::Down(args) => commands::down::run(args, &invocation).await,
        Command::Service(args) => commands::service::run(args, &invocation).await,
        Command::Connect(args) => commands::connect::run(args, &invocation).await,
        Command::Disconnect(args) => commands::disconnect::run(args, &invocation).await,
        Command::Sync(args) => commands::sync::run(args, &invocation).await,
        Command::Mcp(args) => commands::mcp::run(args, &invocation).await,
        Command::Token(args) => commands::token::run(args, &invocation).await,
        Command::Profile(args) => commands::profile::run(args, &invocation).await,
        Command::Keys(args) => commands::keys::run(args, &invocation).await,
        Command::Tools(args) => commands::tools::run(args, &invocation).await,
        Command::Upstream(args) => commands::upstream::run(args, &invocation).await,
        Command::Node(args) => commands::node::run(args, &invocation).await,
        Command::Cp(args) => commands::cp::run(args, &invocation).await,
        Command::Exec(args) => commands::exec::run(args, &invocation).await,
        Command::Shell(args) => commands::shell::run(args, &invocation).await,
        Command::Run(args) => commands::run::run(args, &invocation).await,
        Command::Ps(args) => commands::ps::run(&args, &invocation).await,
        Command::Stop(args) => commands::stop::run(args, &invocation).await,
        Command::Outbox(args) => commands::outbox::run(args, &invocation).await,
        Command::Sessions(args) => commands::sessions::run(args, &invocation).await,
        Command::Events(args) => commands::events::run(args, &invocation).await,
        Command::Audit(args) => commands::audit::run(args, &invocation).await,
        Command::Status => commands::status::run(&invocation).await,
        Command::Doctor(args) => commands::doctor::run(args, &invocation).await,
        Command::Config(args) => commands::config::run(args, &invocation),
        Command::Db(args) => commands::db::run(args, &invocation).await,
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
    }
}
