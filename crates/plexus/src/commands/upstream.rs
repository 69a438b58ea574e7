//! `plexus upstream`: manages the MCP servers behind the hub.

mod add;
pub(crate) mod allow;
mod approve;
mod import;
mod login;
mod server_args;
pub(crate) mod show;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use plexus_proto::ErrorCode;
use plexus_proto::api::{ReloadReport, RemovedUpstream, Upstream, UpstreamLogs, UpstreamState};

pub(crate) use self::add::tools;
use self::allow::{AllowArgs, Owner};
use self::server_args::ServerArgs;
use super::Invocation;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Output, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    #[command(subcommand)]
    command: UpstreamCommand,
}

#[derive(Debug, Subcommand)]
enum UpstreamCommand {
    /// List the servers and their state
    #[command(visible_alias = "ls", after_help = "Example:\n  plexus upstream list")]
    List(ListArgs),
    /// Show a server's state, tools, configuration and last error
    #[command(after_help = "Example:\n  plexus upstream show time")]
    Show {
        /// Name of the server
        name: String,
    },
    /// Add a server to the hub and wait until it is up
    #[command(
        after_help = "A server that is a process runs on the hub's machine. If the setting upstreams.commands does not list its \
command, you are asked once whether the hub may run it; without a terminal, pass --allow-command. Do not write \
credentials in plain text: use ${env:NAME} or ${file:PATH}, which the hub expands when it starts the server. If \
the server does not come up, its file is kept and the exit code is 1.\n\n\
Example:\n  plexus upstream add time -- uvx mcp-server-time\n  \
plexus upstream add docs https://mcp.example.net/mcp --header 'X-Api-Key: ${env:DOCS_KEY}'"
    )]
    Add(add::AddArgs),
    /// Remove a server; its file is kept as a backup
    #[command(visible_alias = "rm", after_help = "Example:\n  plexus upstream remove time")]
    Remove {
        /// Name of the server
        name: String,
    },
    /// Enable a server
    #[command(after_help = "Example:\n  plexus upstream enable time")]
    Enable {
        /// Name of the server
        name: String,
        #[command(flatten)]
        wait: add::WaitArgs,
        #[command(flatten)]
        allow: AllowArgs,
    },
    /// Disable a server; its tools are unavailable until it is enabled again
    #[command(after_help = "Example:\n  plexus upstream disable time")]
    Disable {
        /// Name of the server
        name: String,
    },
    /// Connect to a server once and list its tools, without storing anything
    #[command(
        after_help = "With a URL or a command, tests that server; otherwise the existing server with this name.\n\n\
Example:\n  plexus upstream test time\n  plexus upstream test git -- uvx mcp-server-git"
    )]
    Test {
        /// Name of the server; it does not have to exist if a URL or a command is given
        name: String,
        #[command(flatten)]
        server: ServerArgs,
        #[command(flatten)]
        allow: AllowArgs,
    },
    /// Restart a server, even one that the hub no longer restarts by itself
    #[command(after_help = "Example:\n  plexus upstream restart time")]
    Restart {
        /// Name of the server
        name: String,
        #[command(flatten)]
        wait: add::WaitArgs,
    },
    /// Review a server's tools in quarantine and approve them
    #[command(
        after_help = "New, changed and flagged tools are in quarantine: they are neither listed nor called until you approve them. An \
approval applies only to the definition that was shown. On a terminal, each tool is shown with a prompt: y \
approves it at once, n leaves it in quarantine, a approves it and all remaining ones, q stops. Without a \
terminal, --yes is required to approve; without it, the tools are only shown and the exit code is 1. With --json \
and without --yes, the tools are only shown and the exit code is 0, even if there are none. The exit code is 1 \
if the server has no tool of that name or is not up, and 0 if the tool is already approved.\n\n\
Example:\n  plexus upstream approve time\n  plexus upstream approve time convert_time --yes"
    )]
    Approve(approve::ApproveArgs),
    /// Log the hub in to a server with OAuth: open a browser and wait until the server is up
    #[command(
        after_help = "The hub stores the tokens encrypted and renews them automatically. Over SSH, open the URL on your own \
machine, and paste the URL that the browser is redirected to.\n\n\
Example:\n  plexus upstream login docs\n  plexus upstream login docs --no-browser"
    )]
    Login(login::LoginArgs),
    /// Log the hub out of a server: delete its tokens and revoke them at the authorization server
    #[command(after_help = "Example:\n  plexus upstream logout docs")]
    Logout {
        /// Name of the server
        name: String,
    },
    /// Show the standard error of a server's process
    #[command(after_help = "Example:\n  plexus upstream logs time -n 20")]
    Logs {
        /// Name of the server
        name: String,
        /// Maximum number of lines to show, counted from the newest
        #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        lines: u32,
    },
    /// Import servers from the configuration file of another program
    #[command(
        after_help = "Reads mcp_servers.json and the files of Claude Code, Cursor, Windsurf, Gemini CLI (mcpServers), VS Code \
(servers), Codex (mcp_servers, TOML), Zed (context_servers), OpenCode (mcp) and goose (extensions, YAML). The \
file is not changed. An entry for this hub itself is not imported. The exit code is 1 if any server was skipped.\n\n\
Example:\n  plexus upstream import ~/.claude.json --dry-run\n  plexus upstream import ~/.codex/config.toml"
    )]
    Import(import::ImportArgs),
    /// Reload the files of all servers; only changed servers are restarted
    #[command(after_help = "Example:\n  plexus upstream reload")]
    Reload,
}

impl UpstreamCommand {
    /// The server that must exist.
    fn server(&self) -> Option<&str> {
        match self {
            Self::Show { name }
            | Self::Remove { name }
            | Self::Enable { name, .. }
            | Self::Disable { name }
            | Self::Test { name, .. }
            | Self::Restart { name, .. }
            | Self::Logs { name, .. }
            | Self::Logout { name }
            | Self::Approve(approve::ApproveArgs { name, .. }) => Some(name),
            Self::Login(args) => Some(&args.name),
            Self::List(_) | Self::Add(_) | Self::Import(_) | Self::Reload => None,
        }
    }
}

pub(crate) async fn run(args: UpstreamArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let (out, hub) = (&invocation.out, invocation.hub()?);
    let owner = Owner::of(invocation)?;
    let name = args.command.server().map(str::to_owned);
    if let Err(error) = execute(args.command, out, &hub, &owner).await {
        return Err(with_suggestion(&hub, error, name.as_deref()).await);
    }
    Ok(Exit::Ok.into())
}

/// The error for a command line that gives a server's command without `--` before it, if that explains the parse error.
pub(crate) fn missing_separator(error: &clap::Error, words: &[String]) -> Option<anyhow::Error> {
    (error.kind() == ErrorKind::UnknownArgument).then(|| server_args::missing_separator(words)).flatten()
}

/// Suggests a similar name if the server does not exist.
async fn with_suggestion(hub: &Hub, error: anyhow::Error, name: Option<&str>) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if let Some(name) = name.filter(|_| failure.code == Some(ErrorCode::NotFound))
        && let Some(nearest) = listing::did_you_mean(hub, "upstreams", "name", name).await
    {
        let hint = failure.hint.take().unwrap_or_default();
        failure.hint = Some(format!("Did you mean {}? {hint}", shell::name(&one_line(&nearest))));
    }
    failure.into()
}

async fn execute(command: UpstreamCommand, out: &Output, hub: &Hub, owner: &Owner<'_>) -> anyhow::Result<()> {
    match command {
        UpstreamCommand::List(args) => list(out, hub, &args).await?,
        UpstreamCommand::Show { name } => show::run(out, hub, &name).await?,
        UpstreamCommand::Add(args) => add::run(out, hub, owner, args).await?,
        UpstreamCommand::Remove { name } => remove(out, hub, &name).await?,
        UpstreamCommand::Enable { name, wait, allow } => {
            let began = Instant::now();
            let path = ["upstreams", &name, "enable"];
            owner.send(allow, async || hub.post_with(&path, &wait.query(), &(), &[]).await).await?;
            add::report(out, hub, &name, &wait, began).await?;
        }
        UpstreamCommand::Disable { name } => {
            let answer = hub.post(&["upstreams", &name, "disable"], &(), &[]).await?;
            match out.json() {
                true => out.json_line(answer.raw().get())?,
                false => out.line(&format!(
                    "{} is disabled. `plexus upstream enable {0}` enables it again.",
                    shell::name(&one_line(&name))
                ))?,
            }
        }
        UpstreamCommand::Test { name, server, allow } => {
            show::test(out, hub, (owner, allow), &name, server).await?;
        }
        UpstreamCommand::Restart { name, wait } => {
            let began = Instant::now();
            hub.post_with(&["upstreams", &name, "restart"], &wait.query(), &(), &[]).await?;
            add::report(out, hub, &name, &wait, began).await?;
        }
        UpstreamCommand::Approve(args) => approve::run(out, hub, &args).await?,
        UpstreamCommand::Login(args) => login::login(out, hub, args).await?,
        UpstreamCommand::Logout { name } => login::logout(out, hub, &name).await?,
        UpstreamCommand::Logs { name, lines } => logs(out, hub, &name, lines).await?,
        UpstreamCommand::Import(args) => import::run(out, hub, owner, &args).await?,
        UpstreamCommand::Reload => reload(out, hub).await?,
    }
    Ok(())
}

async fn list(out: &Output, hub: &Hub, args: &ListArgs) -> anyhow::Result<()> {
    let page = listing::fetch(hub, &["upstreams"], &[], args, |_| true).await?;
    let row = |upstream: &Upstream| {
        vec![
            upstream.name.clone(),
            upstream.state.as_str().to_owned(),
            upstream.transport.map_or("-", |transport| transport.as_str()).to_owned(),
            upstream.tools.len().to_string(),
            out.when(upstream.since),
            about(upstream),
        ]
    };
    let empty = "No servers yet. Add one with `plexus upstream add NAME -- COMMAND …` or \
                 `plexus upstream add NAME URL`, or import those of another program with `plexus upstream import FILE`.";
    listing::show(out, &page, &["NAME", "STATE", "TRANSPORT", "TOOLS", "SINCE", "ABOUT"], row, empty)?;
    let decoded = page.items.iter().filter_map(|item| crate::client::decode::<Upstream>(item).ok());
    let unhealthy: Vec<String> =
        decoded.filter(|one| is_unhealthy(one.state)).map(|one| shell::name(&one_line(&one.name))).collect();
    if let (Some(name), false) = (name_in_hint(&unhealthy), out.json()) {
        out.note(&format!("Not working: {}. `plexus upstream show {name}` shows why.", unhealthy.join(", ")));
    }
    let decoded = page.items.iter().filter_map(|item| crate::client::decode::<Upstream>(item).ok());
    let quarantined: Vec<String> = decoded
        .filter(|one| !one.quarantined.is_empty())
        .map(|one| shell::name(&one_line(&one.name)))
        .collect();
    if let (Some(name), false) = (name_in_hint(&quarantined), out.json()) {
        out.note(&format!(
            "Servers with tools in quarantine: {}. `plexus upstream approve {name}` shows them.",
            quarantined.join(", ")
        ));
    }
    Ok(())
}

/// The argument of a suggested command for these servers: the only name, or a placeholder for several.
fn name_in_hint(servers: &[String]) -> Option<&str> {
    match servers {
        [] => None,
        [only] => Some(only),
        _ => Some("NAME"),
    }
}

/// The ABOUT column: the error, remark or program of a server, and its number of quarantined and flagged tools.
fn about(upstream: &Upstream) -> String {
    let counted = |count: usize, label: &str| (count > 0).then(|| format!("{count} {label}"));
    let parts = [
        Some(condition(upstream)).filter(|text| !text.is_empty()),
        counted(upstream.quarantined.len(), "quarantined"),
        counted(upstream.flagged.len(), "flagged"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn condition(upstream: &Upstream) -> String {
    match (&upstream.last_error, &upstream.server) {
        (Some(error), _) if is_unhealthy(upstream.state) => {
            // The path of the folder would fill the column; `show` contains it.
            let folder = Path::new(&upstream.file).parent().unwrap_or(Path::new(""));
            error.message.replace(&format!("{}/", folder.display()), "").replace('\n', "; ")
        }
        (_, Some(server)) if upstream.remark.is_none() => server.clone(),
        _ => upstream.remark.clone().unwrap_or_default(),
    }
}

pub(crate) fn is_unhealthy(state: UpstreamState) -> bool {
    use UpstreamState::{Down, Failed, Invalid, NeedsLogin};
    matches!(state, Invalid | Down | Failed | NeedsLogin)
}

async fn remove(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.delete(&["upstreams", name]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let removed: RemovedUpstream = answer.decode()?;
    out.line(&format!(
        "Removed {}; its file was moved to {}.",
        one_line(&removed.name),
        one_line(&removed.backup)
    ))
}

async fn logs(out: &Output, hub: &Hub, name: &str, lines: u32) -> anyhow::Result<()> {
    let answer = hub.get(&["upstreams", name, "logs"], &[("limit", Some(lines.to_string()))]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamLogs { lines } = answer.decode()?;
    if lines.is_empty() {
        out.note(&format!("{} has not written anything to its standard error.", one_line(name)));
    }
    lines.iter().try_for_each(|line| out.line(line))
}

async fn reload(out: &Output, hub: &Hub) -> anyhow::Result<()> {
    let answer = hub.post(&["upstreams", "-", "reload"], &(), &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let report: ReloadReport = answer.decode()?;
    if !out.json() {
        let parts = [("added", &report.added), ("removed", &report.removed), ("restarted", &report.changed)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(change, names)| format!("{change} {}", one_line(&names.join(", "))));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => out.line("Nothing has changed.")?,
            false => out.line(&format!("Reloaded the files: {}.", parts.join("; ")))?,
        }
    }
    if report.failed.is_empty() {
        return Ok(());
    }
    let failed = report.failed.iter().map(|one| format!("{}: {}", one.name, one.message));
    let message = failed.collect::<Vec<_>>().join("\n");
    Err(Failure::new(Exit::Failed, message)
        .hint("the other servers are not affected; `plexus upstream list` shows all")
        .into())
}
