//! The command line: global flags, the list of commands, and how each command is run.
//!
//! Arguments do not read the environment themselves (clap's `env`). Variables come from the registry in
//! `plexus_kit::env`, and help texts only mention them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use plexus_kit::{Environment, env};
use tokio::runtime;

use crate::commands::{
    Invocation, audit, completions, config, connect, cp, db, disconnect, doctor, down, events, exec, keys,
    man, mcp, node, outbox, profile, ps, run, service, sessions, shell, status, stop, sync, token, tools, up,
    upstream,
};

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  the operation failed, or doctor found a problem
  2  the command line or the configuration is wrong
  3  a verification found problems
  4  the hub cannot be reached
  5  not authenticated, or not allowed

Environment:
  PLEXUS_HUB       URL of the hub if neither --hub nor --data-dir is given
  PLEXUS_TOKEN     token for the hub (default: <data-dir>/admin-token, only for a hub on this
                   machine)
  PLEXUS_DATA_DIR  data folder if --data-dir is not given (default: ~/.local/share/plexus)
  PLEXUS_LOG       log filter, such as debug
  NO_COLOR         disable colours if set

On a terminal, lists are tables that fit its width, with ids shortened to their last characters;
commands accept these as ids. In a pipe, lists are complete tab-separated lines without a heading,
and times are in UTC. Events are readable lines in both cases. --json prints the response of the
hub's API, and errors as an object with code, message and hint on standard error.

Example:
  plexus up --background                     # start the hub; plexus down stops it
  plexus status                              # show its state
  plexus doctor                              # find problems";

/// Shared tools, memory and sessions for all your agents
#[derive(Debug, Parser)]
#[command(name = "plexus", version, after_help = AFTER_HELP, propagate_version = false)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// URL of the hub [env: PLEXUS_HUB] [default: the hub running on this data folder, else
    /// http://127.0.0.1:7420]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// Print the JSON response of the hub's API
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Data folder of the local hub [env: PLEXUS_DATA_DIR] [default: ~/.local/share/plexus]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the hub
    Up(up::UpArgs),
    /// Stop the hub on this machine
    Down(down::DownArgs),
    /// Run the hub on this machine as a systemd service
    Service(service::ServiceArgs),
    /// Connect the agents on this machine to the hub: Codex, Claude Code, Cursor and others
    Connect(connect::ConnectArgs),
    /// Undo the changes of `plexus connect` in the agents' files
    Disconnect(disconnect::DisconnectArgs),
    /// Update the instructions of connected agents, and check their files
    Sync(sync::SyncArgs),
    /// Run the proxy between an agent and the hub, which hides outages from the agent
    Mcp(mcp::McpArgs),
    /// Create, list, rotate and revoke tokens
    Token(token::TokenArgs),
    /// List and show profiles, which select the tools that agents see
    Profile(profile::ProfileArgs),
    /// List and rotate the keys that sign tokens
    Keys(keys::KeysArgs),
    /// List, describe and call tools
    Tools(tools::ToolsArgs),
    /// Manage the MCP servers behind the hub
    Upstream(upstream::UpstreamArgs),
    /// Add and manage other machines (nodes)
    Node(node::NodeArgs),
    /// Copy files and folders to and from other machines
    Cp(cp::CpArgs),
    /// Run a command on another machine
    Exec(exec::ExecArgs),
    /// Open a shell on another machine
    Shell(shell::ShellArgs),
    /// Run an agent such as claude or codex, connected to the hub
    Run(run::RunArgs),
    /// List the agents started on this machine with `plexus run`
    Ps(ps::PsArgs),
    /// Stop an agent started with `plexus run`
    Stop(stop::StopArgs),
    /// Manage queued writes and dead letters
    Outbox(outbox::OutboxArgs),
    /// List sessions and show their events
    Sessions(sessions::SessionsArgs),
    /// Show the events of all sessions
    Events(events::EventsArgs),
    /// Show and verify the audit log of all calls
    Audit(audit::AuditArgs),
    /// Show the state of the hub: its users, queued work and failures
    #[command(
        after_help = "Shows the hub given with --hub or PLEXUS_HUB, or else the one that runs on the data folder. If none runs, \
the exit code is 4, and only the local state is shown.\n\n\
Example:\n  plexus status\n  plexus status --hub http://nas.local:7420"
    )]
    Status,
    /// Diagnose problems of the hub on this machine, and show how to fix them
    Doctor(doctor::DoctorArgs),
    /// Show and validate the hub's configuration
    Config(config::ConfigArgs),
    /// Back up, restore, move and migrate the database
    Db(db::DbArgs),
    /// Generate a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the manual page
    Man(man::ManArgs),
}

impl Command {
    /// The default log filter. None if the command sets up logging itself.
    pub(crate) fn log_filter(&self) -> Option<&'static str> {
        match self {
            // The hub's log settings are part of its configuration, which is read later.
            Self::Up(_) => None,
            // The report of the doctor already contains the problems.
            Self::Doctor(_) => Some("off"),
            // The terminal belongs to the agent.
            Self::Run(_) => Some("off"),
            Self::Node(args) if args.is_node() => Some("info"),
            _ => Some("warn"),
        }
    }

    /// The environment for the logging of the command: a flag overrides its variable.
    pub(crate) fn log_environment(&self, environment: &Environment) -> Environment {
        let flag = match self {
            Self::Node(args) => args.log_format(),
            _ => None,
        };
        let flag = flag.map(|format| (env::LOG_FORMAT.name, format));
        environment.all().chain(flag).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The runtime for the command. Only a hub and a node have work for several threads; a client waits for one
    /// response at a time.
    pub(crate) fn runtime(&self) -> runtime::Builder {
        match self {
            Self::Up(_) => runtime::Builder::new_multi_thread(),
            Self::Node(args) if args.is_node() => runtime::Builder::new_multi_thread(),
            _ => runtime::Builder::new_current_thread(),
        }
    }

    pub(crate) async fn run(self, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
        match self {
            Self::Up(args) => up::run(args, invocation).await,
            Self::Down(args) => down::run(args, invocation).await,
            Self::Service(args) => service::run(args, invocation).await,
            Self::Connect(args) => connect::run(args, invocation).await,
            Self::Disconnect(args) => disconnect::run(args, invocation).await,
            Self::Sync(args) => sync::run(args, invocation).await,
            Self::Mcp(args) => mcp::run(args, invocation).await,
            Self::Token(args) => token::run(args, invocation).await,
            Self::Profile(args) => profile::run(args, invocation).await,
            Self::Keys(args) => keys::run(args, invocation).await,
            Self::Tools(args) => tools::run(args, invocation).await,
            Self::Upstream(args) => upstream::run(args, invocation).await,
            Self::Node(args) => node::run(args, invocation).await,
            Self::Cp(args) => cp::run(args, invocation).await,
            Self::Exec(args) => exec::run(args, invocation).await,
            Self::Shell(args) => shell::run(args, invocation).await,
            Self::Run(args) => run::run(args, invocation).await,
            Self::Ps(args) => ps::run(&args, invocation).await,
            Self::Stop(args) => stop::run(args, invocation).await,
            Self::Outbox(args) => outbox::run(args, invocation).await,
            Self::Sessions(args) => sessions::run(args, invocation).await,
            Self::Events(args) => events::run(args, invocation).await,
            Self::Audit(args) => audit::run(args, invocation).await,
            Self::Status => status::run(invocation).await,
            Self::Doctor(args) => doctor::run(args, invocation).await,
            Self::Config(args) => config::run(args, invocation),
            Self::Db(args) => db::run(args, invocation).await,
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
        }
    }
}

/// A better message than clap's for a command line that cannot be parsed, if a command has one.
pub(crate) fn explain(error: &clap::Error, words: &[String]) -> Option<anyhow::Error> {
    upstream::missing_separator(error, words)
}

#[cfg(test)]
mod tests;
