//! `plexus upstream`: the MCP servers behind the hub.

mod add;
pub(crate) mod allow;
mod approve;
mod document;
mod import;
mod login;
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
use self::document::ServerArgs;
use super::Invocation;
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Output, one_line, shorten};
use crate::shell;

/// Longest remark about a server in a list.
const ABOUT: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    #[command(subcommand)]
    command: UpstreamCommand,
}

#[derive(Debug, Subcommand)]
enum UpstreamCommand {
    /// List the servers and how each is doing
    #[command(visible_alias = "ls", after_help = "Example:\n  plexus upstream list")]
    List(ListArgs),
    /// Show a server: its state, its tools, its file, and why it failed
    #[command(after_help = "Example:\n  plexus upstream show time")]
    Show {
        /// Name of the server
        name: String,
    },
    /// Put a server behind the hub and wait until it is up
    #[command(
        after_help = "A server that is a process is added on the hub's own machine. A command that is not in the hub's setting \
upstreams.commands is asked about once; without a terminal, --allow-command allows it. Do not write credentials down: ${env:NAME} and ${file:PATH} are filled in by the hub when it \
starts the server. Where the server does not come up its file stays, and the exit code is 1.\n\n\
Example:\n  plexus upstream add time -- uvx mcp-server-time\n  \
plexus upstream add docs https://mcp.example.net/mcp --header 'X-Api-Key: ${env:DOCS_KEY}'"
    )]
    Add(add::AddArgs),
    /// Take a server away; its file is kept as a backup
    #[command(visible_alias = "rm", after_help = "Example:\n  plexus upstream remove time")]
    Remove {
        /// Name of the server
        name: String,
    },
    /// Switch a server on
    #[command(after_help = "Example:\n  plexus upstream enable time")]
    Enable {
        /// Name of the server
        name: String,
        #[command(flatten)]
        wait: add::WaitArgs,
        #[command(flatten)]
        allow: AllowArgs,
    },
    /// Switch a server off; its tools are gone until it is switched on again
    #[command(after_help = "Example:\n  plexus upstream disable time")]
    Disable {
        /// Name of the server
        name: String,
    },
    /// Connect to a server once and say what it offers; nothing is stored
    #[command(
        after_help = "With a URL or a command that is what is tried, without either the server of that name.\n\n\
Example:\n  plexus upstream test time\n  plexus upstream test git -- uvx mcp-server-git"
    )]
    Test {
        /// Name of the server, which need not exist where a URL or a command is given
        name: String,
        #[command(flatten)]
        server: ServerArgs,
        #[command(flatten)]
        allow: AllowArgs,
    },
    /// Start a server anew, also one that was given up
    #[command(after_help = "Example:\n  plexus upstream restart time")]
    Restart {
        /// Name of the server
        name: String,
        #[command(flatten)]
        wait: add::WaitArgs,
    },
    /// Show what is new or has changed of a server's tools, and approve it
    #[command(
        after_help = "Tools that are new, have changed or look strange are neither listed nor called until they are approved. What \
is approved is what was shown. On a terminal each tool is shown and asked about: y approves it at once, n leaves it waiting, \
a approves it and all the rest, q stops. Elsewhere --yes is needed, and without it the exit code is 1. With --json and \
without --yes what waits is shown and the exit code is 0, whether or not anything waits. A name that the server does not have, \
and a server that is not up, end with 1; one that is approved already does not.\n\n\
Example:\n  plexus upstream approve time\n  plexus upstream approve time convert_time --yes"
    )]
    Approve(approve::ApproveArgs),
    /// Log in to a server that wants it: opens a browser, and waits until the server is up
    #[command(
        after_help = "The hub keeps the access that it is given, encrypted, and renews it by itself. Over SSH, open the address \
on your own machine, and paste the one that the browser ends up at.\n\n\
Example:\n  plexus upstream login docs\n  plexus upstream login docs --no-browser"
    )]
    Login(login::LoginArgs),
    /// Forget the access to a server, and end it where it was given
    #[command(after_help = "Example:\n  plexus upstream logout docs")]
    Logout {
        /// Name of the server
        name: String,
    },
    /// Show what a server's process wrote to its standard error
    #[command(after_help = "Example:\n  plexus upstream logs time -n 20")]
    Logs {
        /// Name of the server
        name: String,
        /// The newest lines, this many at most
        #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        lines: u32,
    },
    /// Take over servers from the file of another program
    #[command(
        after_help = "Takes mcp_servers.json and the files of Claude Code, Cursor, Windsurf, Gemini CLI (mcpServers), VS Code \
(servers), Codex (mcp_servers, TOML), Zed (context_servers), OpenCode (mcp) and goose (extensions, YAML). The file itself is \
not changed. An entry that is this hub is not imported. The exit code is 1 when a server was left out.\n\n\
Example:\n  plexus upstream import ~/.claude.json --dry-run\n  plexus upstream import ~/.codex/config.toml"
    )]
    Import(import::ImportArgs),
    /// Read the files of all servers again; only what has changed is restarted
    #[command(after_help = "Example:\n  plexus upstream reload")]
    Reload,
}

impl UpstreamCommand {
    /// The server that has to be there.
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
    if let Err(error) = act(args.command, out, &hub, &owner).await {
        return Err(misspelt(&hub, error, name.as_deref()).await);
    }
    Ok(Exit::Ok.into())
}

/// The command line of a server whose command lacks the `--` before it.
pub(crate) fn without_dashes(error: &clap::Error, words: &[String]) -> Option<anyhow::Error> {
    (error.kind() == ErrorKind::UnknownArgument).then(|| document::without_dashes(words)).flatten()
}

/// A name that no server has is most likely one of another spelling.
async fn misspelt(hub: &Hub, error: anyhow::Error, name: Option<&str>) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if let Some(name) = name.filter(|_| failure.code == Some(ErrorCode::NotFound))
        && let Some(meant) = listing::did_you_mean(hub, "upstreams", "name", name).await
    {
        let hint = failure.hint.take().unwrap_or_default();
        failure.hint = Some(format!("Did you mean {}? {hint}", shell::name(&one_line(&meant))));
    }
    failure.into()
}

async fn act(command: UpstreamCommand, out: &Output, hub: &Hub, owner: &Owner<'_>) -> anyhow::Result<()> {
    match command {
        UpstreamCommand::List(args) => list(out, hub, &args).await?,
        UpstreamCommand::Show { name } => show::run(out, hub, &name).await?,
        UpstreamCommand::Add(args) => add::run(out, hub, owner, args).await?,
        UpstreamCommand::Remove { name } => remove(out, hub, &name).await?,
        UpstreamCommand::Enable { name, wait, allow } => {
            let began = Instant::now();
            let path = ["upstreams", &name, "enable"];
            owner.allowing(allow, async || hub.post_with(&path, &wait.query(), &(), &[]).await).await?;
            add::report(out, hub, &name, &wait, began).await?;
        }
        UpstreamCommand::Disable { name } => {
            let answer = hub.post(&["upstreams", &name, "disable"], &(), &[]).await?;
            match out.json() {
                true => out.json_line(answer.raw().get())?,
                false => out.line(&format!(
                    "{} is off. `plexus upstream enable {0}` switches it on again.",
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
            match out.terminal() {
                true => shorten(&about(upstream), ABOUT),
                false => about(upstream),
            },
        ]
    };
    let empty = "No servers yet. Put one behind the hub with `plexus upstream add NAME -- COMMAND …` or \
                 `plexus upstream add NAME URL`, or take over those of another program with `plexus upstream import FILE`.";
    listing::show(out, &page, &["NAME", "STATE", "TRANSPORT", "TOOLS", "SINCE", "ABOUT"], row, empty)?;
    let decoded = page.items.iter().filter_map(|item| crate::client::decode::<Upstream>(item).ok());
    let unwell: Vec<String> =
        decoded.filter(|one| is_unwell(one.state)).map(|one| shell::name(&one_line(&one.name))).collect();
    if let (Some(which), false) = (which(&unwell), out.json()) {
        out.note(&format!("Not well: {}. `plexus upstream show {which}` says why.", unwell.join(", ")));
    }
    let decoded = page.items.iter().filter_map(|item| crate::client::decode::<Upstream>(item).ok());
    let waiting: Vec<String> = decoded
        .filter(|one| !one.quarantined.is_empty())
        .map(|one| shell::name(&one_line(&one.name)))
        .collect();
    if let (Some(which), false) = (which(&waiting), out.json()) {
        out.note(&format!(
            "Quarantined tools: {}. `plexus upstream approve {which}` shows what is new or has changed.",
            waiting.join(", ")
        ));
    }
    Ok(())
}

/// The server to name in a command that is meant for each of these.
fn which(servers: &[String]) -> Option<&str> {
    match servers {
        [] => None,
        [only] => Some(only),
        _ => Some("NAME"),
    }
}

/// What there is to say of a server on one line.
fn about(upstream: &Upstream) -> String {
    let odd = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let parts = [
        Some(condition(upstream)).filter(|text| !text.is_empty()),
        odd(upstream.quarantined.len(), "quarantined"),
        odd(upstream.flagged.len(), "flagged"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn condition(upstream: &Upstream) -> String {
    match (&upstream.last_error, &upstream.server) {
        (Some(error), _) if is_unwell(upstream.state) => {
            // Which folder it is stands in `show`; here it would be all that there is room for.
            let folder = Path::new(&upstream.file).parent().unwrap_or(Path::new(""));
            error.message.replace(&format!("{}/", folder.display()), "").replace('\n', "; ")
        }
        (_, Some(server)) if upstream.remark.is_none() => server.clone(),
        _ => upstream.remark.clone().unwrap_or_default(),
    }
}

pub(crate) fn is_unwell(state: UpstreamState) -> bool {
    use UpstreamState::{Down, Failed, Invalid, NeedsLogin};
    matches!(state, Invalid | Down | Failed | NeedsLogin)
}

async fn remove(out: &Output, hub: &Hub, name: &str) -> anyhow::Result<()> {
    let answer = hub.delete(&["upstreams", name]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let removed: RemovedUpstream = answer.decode()?;
    out.line(&format!("Removed {}; its file is now {}.", one_line(&removed.name), one_line(&removed.backup)))
}

async fn logs(out: &Output, hub: &Hub, name: &str, lines: u32) -> anyhow::Result<()> {
    let answer = hub.get(&["upstreams", name, "logs"], &[("limit", Some(lines.to_string()))]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let UpstreamLogs { lines } = answer.decode()?;
    if lines.is_empty() {
        out.note(&format!("{} has written nothing to its standard error.", one_line(name)));
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
            .map(|(what, names)| format!("{what} {}", one_line(&names.join(", "))));
        let parts: Vec<String> = parts.collect();
        match parts.is_empty() {
            true => out.line("Nothing has changed.")?,
            false => out.line(&format!("Read the files again: {}.", parts.join("; ")))?,
        }
    }
    if report.failed.is_empty() {
        return Ok(());
    }
    let failed = report.failed.iter().map(|one| format!("{}: {}", one.name, one.message));
    let message = failed.collect::<Vec<_>>().join("\n");
    Err(Failure::new(Exit::Failed, message).hint("the others go on; `plexus upstream list` shows all").into())
}
