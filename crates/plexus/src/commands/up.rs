//! `plexus up`: becomes the hub.

mod background;
mod refusal;

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

/// Start the hub on this machine and run it until it is told to stop
#[derive(Debug, Args)]
#[command(
    after_help = "Flags win over the environment, which wins over the configuration file: see `plexus config`.\n\
SIGHUP reads the configuration and the profiles again; SIGTERM and SIGINT finish what runs and stop.\n\n\
Examples:\n  plexus up --data-dir ~/plexus --listen 127.0.0.1:7420\n  plexus up --background"
)]
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
    /// Folder with one file for each MCP server [env: PLEXUS_MCP_DIR] [default: mcp_servers.d in the
    /// data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) mcp_dir: Option<PathBuf>,
    /// Folder with user-defined tools [env: PLEXUS_TOOLS_DIR] [default: tools.d in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) tools_dir: Option<PathBuf>,
    /// Start it in the background, wait until it is ready, and print where it is; `plexus down` stops it
    #[arg(long)]
    background: bool,
    /// Leave the terminal: set by --background
    #[arg(long, hide = true, conflicts_with = "background")]
    detached: bool,
    /// Form of the log: text for people, json for programs [env: PLEXUS_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub(crate) log_format: Option<String>,
    /// Configuration file [env: PLEXUS_CONFIG] [default: plexus.toml in the data folder, if it is
    /// there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl UpArgs {
    /// What the flags, the environment and the file say now.
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
        // Fails only where it leads a session already, which is as good.
        let _ = rustix::process::setsid();
    }
    // Held to the end: what was traced until then is sent when it is dropped.
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
            "{} can be reached from other machines, over plain HTTP: set tls.cert and tls.key, or put a proxy with TLS in \
             front and name it in public_url or allowed_hosts",
            config.listen
        );
    }
    if args.mcp_dir.is_some() && !config.upstreams.dir.is_dir() {
        tracing::warn!(
            "--mcp-dir names {}, which is no folder that is there: there are no MCP servers until it is",
            config.upstreams.dir.display()
        );
    }
    refusal::unoccupied(&data_dir)?;
    // Before anything is started, so that a signal during start-up is not lost.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let at_terminal = io::stdin().is_terminal();
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let hub = tokio::select! {
        started = Hub::start(HubOptions { environment: environment.clone(), launcher: std::env::current_exe().ok(), ..HubOptions::new(config) }) => started.map_err(refusal::explained)?,
        _ = terminate.recv() => return Ok(Exit::Ok.into()),
        _ = interrupt.recv() => return Ok(Exit::Ok.into()),
    };
    let agents = match io::stdout().is_terminal() {
        true => unconnected(&data_dir, environment),
        false => Vec::new(),
    };
    output::announce(&welcome(&hub, &data_dir, environment, &agents));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            // The same signal says that the terminal was closed, and then nobody is left to stop us.
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

/// Gives a running hub what was read anew; what is wrong changes nothing.
fn reload(hub: &Hub, logs: &Telemetry, read: Result<Config, ConfigError>) {
    hub.reload_profiles();
    let read = match read {
        Ok(read) => read,
        Err(error) => {
            for problem in error.problems {
                tracing::error!("{problem}");
            }
            tracing::error!("the configuration was not reloaded; the hub goes on with the one it has");
            return;
        }
    };
    for warning in read.warnings() {
        tracing::warn!("{warning}");
    }
    let reloaded = hub.reload(read);
    if let Err(error) = hub.reload_tls() {
        tracing::error!("{error} ({}); the hub goes on with the certificate it has", error.fix);
    }
    logs.set_filter(&hub.config().telemetry.log);
    for Change { key, old, new } in &reloaded.changed {
        tracing::info!(key, old, new, "setting changed");
    }
    for Change { key, old, new } in &reloaded.needs_restart {
        tracing::warn!(key, old, new, "this setting needs a restart to change; the old value stays");
    }
    tracing::info!(
        changed = reloaded.changed.len(),
        needs_restart = reloaded.needs_restart.len(),
        "configuration reloaded"
    );
}

/// What a person needs to know now; nothing secret, for it may end up in a log.
fn welcome(hub: &Hub, data_dir: &Path, environment: &Environment, agents: &[&str]) -> String {
    // Only a name that is in the hub's certificate is one that clients believe.
    let config = hub.config();
    let url = config.public_url.clone().filter(|_| config.tls.cert.is_some()).unwrap_or_else(|| hub.url());
    let everywhere = match hub.address() {
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
            format!("\n  Agents        {} found and not connected: {plexus}{flag} connect", agents.join(", "))
        }
    };
    let next = [
        ("connect", "let your agents use it"),
        ("status", "how the hub is doing"),
        ("tools list", "the tools there are"),
        ("upstream add --help", "how to put an MCP server behind it"),
    ];
    let width = next.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let next: Vec<String> = next
        .iter()
        .map(|(command, about)| format!("  {plexus}{flag} {command:width$}   {about}\n"))
        .collect();
    format!(
        "Plexus is ready.\n\
         \x20 MCP endpoint  {url}/mcp{everywhere}\n\
         \x20 Data folder   {}{servers}{found}\n\
         \n\
         Next, in another terminal:\n{}\n\
         Stop with Ctrl-C.\n",
        data_dir.display(),
        next.concat(),
    )
}

/// The flag with which commands find this data folder, after a blank. Empty where they find it by themselves.
fn folder_flag(data_dir: &Path, environment: &Environment) -> String {
    let other = default_data_dir(environment).is_none_or(|default| default != data_dir)
        && environment.get(env::DATA_DIR).is_none_or(|named| Path::new(named) != data_dir);
    if other { format!(" --data-dir {}", shell::word(data_dir)) } else { String::new() }
}

/// Agents of this machine that somebody may want to connect.
fn unconnected(data_dir: &Path, environment: &Environment) -> Vec<&'static str> {
    let bridge = Bridge::new(&data_dir.join(plexus_bridge::FOLDER), environment, Clock::system());
    let connected: Vec<String> = match bridge.ledger() {
        Ok(ledger) => ledger.connections.into_values().map(|connection| connection.agent).collect(),
        // What is wrong with it is said by the commands that are about it.
        Err(_) => return Vec::new(),
    };
    let there = AGENTS.iter().filter(|agent| agents::present(agent, environment));
    there.filter(|agent| !connected.iter().any(|id| id == agent.id)).map(|agent| agent.name).collect()
}

/// Longest list of servers in the welcome.
const SERVERS_NAMED: usize = 6;

/// The MCP servers behind the hub; they are only being started now.
fn servers(upstreams: &[Upstream]) -> Option<String> {
    let on: Vec<&str> = upstreams
        .iter()
        .filter(|upstream| upstream.state != UpstreamState::Disabled)
        .map(|upstream| upstream.name.as_str())
        .collect();
    let more = match on.len().saturating_sub(SERVERS_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = on.iter().take(SERVERS_NAMED).copied().collect::<Vec<_>>().join(", ");
    (!on.is_empty()).then(|| format!("{}: {}{more}", on.len(), output::one_line(&named)))
}
