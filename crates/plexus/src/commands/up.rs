//! `plexus up`: becomes the hub.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use plexus_hub::{Hub, HubOptions};
use plexus_kit::config::{RawConfig, default_data_dir};
use plexus_kit::{Config, Environment, Secret, env};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::output;

/// Start the hub on this machine and run it until it is told to stop
#[derive(Debug, Args)]
#[command(after_help = "Flags win over the environment, which wins over the configuration file.\n\n\
Example:\n  plexus up --data-dir ~/plexus --listen 127.0.0.1:7420")]
pub(crate) struct UpArgs {
    /// Data folder: database, keys, admin token [env: PLEXUS_DATA_DIR] [default:
    /// ~/.local/share/plexus]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address to listen on [env: PLEXUS_LISTEN] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Database; put a URL with a password into the variable instead, where other users do not
    /// see it [env: PLEXUS_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<Secret>,
    /// Configuration file [env: PLEXUS_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

pub(crate) async fn run(args: UpArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    for name in environment.unknown() {
        tracing::warn!("the variable {name} is set, but nothing reads it; is it misspelt?");
    }
    let flags = RawConfig {
        data_dir: args.data_dir,
        listen: args.listen,
        database_url: args.database_url,
        ..RawConfig::default()
    };
    let config = Config::load(args.config.as_deref(), environment, flags)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let data_dir = config.data_dir.clone();
    if !config.listen.ip().is_loopback() {
        tracing::warn!(
            "{} can be reached from other machines, over plain HTTP: put a proxy with TLS in front, and name it in \
             public_url or allowed_hosts",
            config.listen
        );
    }
    // Before anything is started, so that a signal during start-up is not lost.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let hub = tokio::select! {
        started = Hub::start(HubOptions::new(config)) => started?,
        _ = terminate.recv() => return Ok(Exit::Ok.into()),
        _ = interrupt.recv() => return Ok(Exit::Ok.into()),
    };
    output::announce(&welcome(&hub.url(), &data_dir, environment));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let drained = hub.shutdown().await;
    match drained.aborted.as_slice() {
        [] => Ok(Exit::Ok.into()),
        stuck => {
            Err(Failure::new(Exit::Failed, format!("stopped, but had to abort: {}", stuck.join(", "))).into())
        }
    }
}

/// The path as a shell takes it, from whatever folder it is used.
fn shell_word(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@%,:=".contains(&b);
    if path.bytes().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// What a person needs to know now; nothing secret, for it may end up in a log.
fn welcome(url: &str, data_dir: &Path, environment: &Environment) -> String {
    // Commands find the default folder by themselves; another one has to be named.
    let other = default_data_dir(environment).is_none_or(|default| default != data_dir)
        && environment.get(env::DATA_DIR).is_none_or(|named| Path::new(named) != data_dir);
    let flag = if other { format!(" --data-dir {}", shell_word(data_dir)) } else { String::new() };
    let plexus = command(environment);
    let next = [
        ("status", "how the hub is doing"),
        ("token create --kind agent --name codex", "a token for an agent"),
        ("tools list", "the tools there are"),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let next: Vec<String> = next
        .iter()
        .map(|(command, about)| format!("  {plexus}{flag} {command:width$}   {about}\n"))
        .collect();
    format!(
        "Plexus is ready.\n\
         \x20 MCP endpoint  {url}/mcp\n\
         \x20 Data folder   {}\n\
         \n\
         Next, in another terminal:\n{}\n\
         Stop with Ctrl-C.\n",
        data_dir.display(),
        next.concat(),
    )
}

/// How this program is called: by its name where the shell finds it, else by its path.
fn command(environment: &Environment) -> String {
    let path = environment.get(env::PATH).unwrap_or_default();
    let found = std::env::split_paths(path).any(|folder| folder.join("plexus").is_file());
    match std::env::current_exe() {
        Ok(program) if !found => shell_word(&program),
        _ => "plexus".to_owned(),
    }
}
