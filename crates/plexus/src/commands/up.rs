//! `plexus up`: runs the hub.

mod background;
mod start_error;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use plexus_bridge::Bridge;
use plexus_bridge::agents::{self, AGENTS};
use plexus_hub::{Hub, HubOptions};
use plexus_kit::config::{Change, RawConfig, default_data_dir};
use plexus_kit::telemetry::{self, Options, Telemetry};
use plexus_kit::{Clock, Config, ConfigError, Environment, Secret, env};
use plexus_proto::api::{Upstream, UpstreamState};
use tokio::signal::unix::{SignalKind, signal};

use super::Invocation;
use crate::failure::{Exit, Failure};
use crate::{output, shell};

/// Start the hub on this machine
#[derive(Debug, Args)]
#[command(
    after_help = "Flags override the environment, which overrides the configuration file: see `plexus config`.\n\
SIGHUP reloads the configuration and the profiles. SIGTERM and SIGINT finish running work and stop the hub.\n\n\
Examples:\n  plexus up --data-dir ~/plexus --listen 127.0.0.1:7420\n  plexus up --background"
)]
pub(crate) struct UpArgs {
    /// Data folder: database, keys, admin token [env: PLEXUS_DATA_DIR] [default: ~/.local/share/plexus]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address to listen on [env: PLEXUS_LISTEN] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Database URL. Set a URL with a password in the variable, because other users can see command lines
    /// [env: PLEXUS_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<Secret>,
    /// Folder with one file per MCP server [env: PLEXUS_MCP_DIR] [default: mcp_servers.d in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) mcp_dir: Option<PathBuf>,
    /// Folder with user-defined tools [env: PLEXUS_TOOLS_DIR] [default: tools.d in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) tools_dir: Option<PathBuf>,
    /// Start the hub in the background, wait until it is ready, and print its URL; `plexus down` stops it
    #[arg(long)]
    background: bool,
    /// Detach from the terminal; set by --background
    #[arg(long, hide = true, conflicts_with = "background")]
    detached: bool,
    /// Log format [env: PLEXUS_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub(crate) log_format: Option<String>,
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl UpArgs {
    /// Loads the configuration from the flags, the environment and the file.
    fn load(&self, environment: &Environment) -> Result<Config, ConfigError> {
        let flags = RawConfig {
            data_dir: self.data_dir.clone(),
            listen: self.listen.clone(),
            database_url: self.database_url.clone(),
            mcp_dir: self.mcp_dir.clone(),
            tools_dir: self.tools_dir.clone(),
            log_format: self.log_format.clone(),
        };
        Config::load(self.config.as_deref(), environment, flags)
    }
}

pub(crate) async fn run(args: UpArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let environment = invocation.environment();
    let config = args.load(environment).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if args.background {
        return background::start(&config, environment, &invocation.out).await;
    }
    if args.detached {
        // Fails only if the process already leads a session, which is fine.
        let _ = rustix::process::setsid();
    }
    // Held until the end, because dropping it flushes the traces.
    let logs = telemetry::init(
        Options {
            filter: &config.telemetry.log,
            format: config.telemetry.log_format,
            otlp_endpoint: config.telemetry.otlp_endpoint.as_ref(),
        },
        environment,
    );
    for warning in super::variable_warnings(environment) {
        tracing::warn!("{warning}");
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let data_dir = config.data_dir.clone();
    if !config.listen.ip().is_loopback() && config.tls.cert.is_none() {
        tracing::warn!(
            "{} is reachable from other machines over unencrypted HTTP: set tls.cert and tls.key, or use a proxy with TLS \
             and set its name in public_url or allowed_hosts",
            config.listen
        );
    }
    if args.mcp_dir.is_some() && !config.upstreams.dir.is_dir() {
        tracing::warn!(
            "the folder {} of --mcp-dir does not exist: no MCP servers are available until it does",
            config.upstreams.dir.display()
        );
    }
    start_error::check_unoccupied(&data_dir)?;
    // Before starting anything, so that a signal during startup is not lost.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let at_terminal = io::stdin().is_terminal();
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let hub = tokio::select! {
        started = Hub::start(HubOptions { environment: environment.clone(), launcher: std::env::current_exe().ok(), ..HubOptions::new(config) }) => started.map_err(start_error::explain)?,
        _ = terminate.recv() => return Ok(Exit::Ok.into()),
        _ = interrupt.recv() => return Ok(Exit::Ok.into()),
    };
    let agents = match io::stdout().is_terminal() {
        true => unconnected_agents(&data_dir, environment),
        false => Vec::new(),
    };
    output::announce(&welcome(&hub, &data_dir, environment, &agents));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            // SIGHUP also means that the terminal was closed. The user can no longer press Ctrl-C then, so the hub
            // stops.
            _ = hangup.recv() => match at_terminal && !io::stdin().is_terminal() {
                true => break,
                false => reload(&hub, &logs, args.load(environment)),
            },
        }
    }
    let drained = hub.shutdown().await;
    match drained.aborted.as_slice() {
        [] => Ok(Exit::Ok.into()),
        stuck => {
            Err(Failure::new(Exit::Failed, format!("stopped, but had to abort: {}", stuck.join(", "))).into())
        }
    }
}

/// Applies a reloaded configuration to a running hub. An invalid one changes nothing.
fn reload(hub: &Hub, logs: &Telemetry, config: Result<Config, ConfigError>) {
    hub.reload_profiles();
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            for problem in error.problems {
                tracing::error!("{problem}");
            }
            tracing::error!("the configuration was not reloaded; the hub keeps the current one");
            return;
        }
    };
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let reloaded = hub.reload(config);
    if let Err(error) = hub.reload_tls() {
        tracing::error!("{error} ({}); the hub keeps its current certificate", error.fix);
    }
    logs.set_filter(&hub.config().telemetry.log);
    for Change { key, old, new } in &reloaded.changed {
        tracing::info!(key, old, new, "setting changed");
    }
    for Change { key, old, new } in &reloaded.needs_restart {
        tracing::warn!(
            key,
            old,
            new,
            "this setting changes only after a restart; the old value stays in effect"
        );
    }
    tracing::info!(
        changed = reloaded.changed.len(),
        needs_restart = reloaded.needs_restart.len(),
        "configuration reloaded"
    );
}

/// The startup message. It must not contain secrets, because it can end up in a log.
fn welcome(hub: &Hub, data_dir: &Path, environment: &Environment, agents: &[&str]) -> String {
    // With TLS, clients accept only a name that is in the hub's certificate.
    let config = hub.config();
    let url = config.public_url.clone().filter(|_| config.tls.cert.is_some()).unwrap_or_else(|| hub.url());
    let all_interfaces = match hub.address() {
        address if address.ip().is_unspecified() => format!("\n  Listens on    {address}, all interfaces"),
        _ => String::new(),
    };
    let servers = match servers(&hub.upstreams().list()) {
        Some(servers) => format!("\n  Servers       {servers}"),
        None => String::new(),
    };
    let flag = folder_flag(data_dir, environment);
    let plexus = shell::plexus(environment);
    let found = match agents {
        [] => String::new(),
        agents => {
            format!(
                "\n  Agents        {} found, not connected yet: {plexus}{flag} connect",
                agents.join(", ")
            )
        }
    };
    let next = [
        ("connect", "connect your agents"),
        ("status", "show the state of the hub"),
        ("tools list", "list the tools"),
        ("upstream add --help", "how to add an MCP server"),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let next: Vec<String> = next
        .iter()
        .map(|(command, about)| format!("  {plexus}{flag} {command:width$}   {about}\n"))
        .collect();
    format!(
        "Plexus is ready.\n\
         \x20 MCP endpoint  {url}/mcp{all_interfaces}\n\
         \x20 Data folder   {}{servers}{found}\n\
         \n\
         Next, in another terminal:\n{}\n\
         Stop with Ctrl-C.\n",
        data_dir.display(),
        next.concat(),
    )
}

/// The flag that selects this data folder, with a leading space. Empty if commands find the folder without it.
fn folder_flag(data_dir: &Path, environment: &Environment) -> String {
    let needs_flag = default_data_dir(environment).is_none_or(|default| default != data_dir)
        && environment.get(env::DATA_DIR).is_none_or(|named| Path::new(named) != data_dir);
    if needs_flag { format!(" --data-dir {}", shell::word(data_dir)) } else { String::new() }
}

/// Agents on this machine that are not connected.
fn unconnected_agents(data_dir: &Path, environment: &Environment) -> Vec<&'static str> {
    let bridge = Bridge::new(&data_dir.join(plexus_bridge::FOLDER), environment, Clock::system());
    let connected: Vec<String> = match bridge.ledger() {
        Ok(ledger) => ledger.connections.into_values().map(|connection| connection.agent).collect(),
        // `plexus connect` reports errors of the ledger.
        Err(_) => return Vec::new(),
    };
    let present = AGENTS.iter().filter(|agent| agents::is_present(agent, environment));
    present.filter(|agent| !connected.iter().any(|id| id == agent.id)).map(|agent| agent.name).collect()
}

/// Maximum number of servers in the startup message.
const MAX_SERVERS: usize = 6;

/// The names of the enabled MCP servers, which are still starting.
fn servers(upstreams: &[Upstream]) -> Option<String> {
    let enabled: Vec<&str> = upstreams
        .iter()
        .filter(|upstream| upstream.state != UpstreamState::Disabled)
        .map(|upstream| upstream.name.as_str())
        .collect();
    let more = match enabled.len().saturating_sub(MAX_SERVERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = enabled.iter().take(MAX_SERVERS).copied().collect::<Vec<_>>().join(", ");
    (!enabled.is_empty()).then(|| format!("{}: {}{more}", enabled.len(), output::one_line(&names)))
}
