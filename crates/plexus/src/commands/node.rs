//! `plexus node`: manages the machines that tools run on.
//!
//! `join`, `run`, `policy`, `install` and `uninstall` act on this machine; the other commands are clients of the hub.

mod invite;
mod invites;
mod join;
mod label;
mod membership;
mod policy;
mod run;
mod service;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::ErrorCode;
use plexus_proto::api::{ChangeNodeParams, Node, NodeState, RemovedNode};

use super::Invocation;
use super::service::{InstallArgs, UninstallArgs};
use crate::client::Hub;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Output, PromptReply, one_line};
use crate::shell;

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

impl NodeArgs {
    /// Whether this process becomes a node instead of a client of a hub.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self.command, NodeCommand::Run(_))
    }

    /// The log format given as a flag.
    pub(crate) fn log_format(&self) -> Option<&str> {
        match &self.command {
            NodeCommand::Run(args) => args.log_format.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Join a hub as a node
    #[command(
        after_help = "For join, run, policy and install, --data-dir is the node's data folder [env: PLEXUS_NODE_DATA_DIR] \
[default: ~/.local/share/plexus-node].\n\n\
Example:\n  plexus node join https://hub.example CODE"
    )]
    Join(join::JoinArgs),
    /// Run the node on this machine until it is stopped
    #[command(
        after_help = "On SIGTERM or SIGINT the node gives running calls 10 s to end, disconnects from the hub and stops; \
a second signal stops it at once.\n\n\
Example:\n  plexus node run\n  PLEXUS_NODE_KEY=... plexus node run --hub https://hub.example --name nas"
    )]
    Run(run::RunArgs),
    /// Install a systemd service that runs the node
    #[command(
        after_help = "Installs a user service, or a system service if run as root. To change the unit, use `systemctl edit`: \
an edited unit file is replaced only with --force.\n\n\
Example:\n  plexus node install --print\n  plexus node install --user --now\n  sudo plexus node install --system"
    )]
    Install(InstallArgs),
    /// Remove the node's systemd service; its credential and data stay
    #[command(after_help = "Example:\n  plexus node uninstall --user --now")]
    Uninstall(UninstallArgs),
    /// Show or check this machine's policy: what a hub may do here, and the sandbox that enforces it
    #[command(
        after_help = "The policy is node.toml in the node's data folder. It is reloaded when it changes.\n\n\
Example:\n  plexus node policy\n  plexus node policy --local\n  plexus node policy --default > node.toml\n  \
plexus node policy --check node.toml"
    )]
    Policy(policy::PolicyArgs),
    #[command(flatten)]
    Hub(HubCommand),
}

/// Commands that are requests to the hub.
#[derive(Debug, Subcommand)]
enum HubCommand {
    /// Create an invitation and print the command that joins another machine to this hub
    #[command(
        after_help = "The code can be used once, by one machine, until it expires. Inviting the same name again revokes its \
previous code.\n\n\
Example:\n  plexus node invite nas --label role=storage --ttl 1h"
    )]
    Invite(invite::InviteArgs),
    /// List pending invitations
    #[command(
        after_help = "Codes are printed only once, by `plexus node invite`. To get a new code, invite the name again.\n\n\
Example:\n  plexus node invites"
    )]
    Invites,
    /// Revoke a pending invitation
    #[command(after_help = "Example:\n  plexus node uninvite nas")]
    Uninvite {
        /// Name that was invited
        name: String,
    },
    /// List the machines and their state
    #[command(visible_alias = "ls", after_help = "Example:\n  plexus node list")]
    List(ListArgs),
    /// Show a machine: its state, labels, tools and MCP servers
    #[command(after_help = "Example:\n  plexus node show nas")]
    Show {
        /// Name or id of the machine
        node: String,
    },
    /// Stop sending new calls to a machine; running calls continue
    #[command(after_help = "Example:\n  plexus node drain nas\n  plexus node drain nas --off")]
    Drain {
        /// Name or id of the machine
        node: String,
        /// Resume sending calls to it
        #[arg(long)]
        off: bool,
    },
    /// Remove a machine: disconnect it and revoke its credential
    #[command(visible_alias = "rm", after_help = "Example:\n  plexus node remove nas --yes")]
    Remove {
        /// Name or id of the machine
        node: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Set or remove a machine's labels on the hub
    #[command(
        after_help = "Labels that the machine sets itself (`plexus node run --label`) stay; the hub's labels override them.\n\n\
Example:\n  plexus node label nas role=storage floor-"
    )]
    Label(label::LabelArgs),
    /// Rename a machine; scopes, profiles and tokens that use the old name are not updated
    #[command(after_help = "Example:\n  plexus node rename nas cellar")]
    Rename {
        /// Name or id of the machine
        node: String,
        /// New name
        name: String,
    },
}

impl HubCommand {
    /// The machine that the command requires to exist.
    fn node(&self) -> Option<&str> {
        match self {
            Self::Show { node }
            | Self::Drain { node, .. }
            | Self::Remove { node, .. }
            | Self::Rename { node, .. } => Some(node),
            Self::Label(args) => Some(&args.node),
            Self::Invite(_) | Self::Invites | Self::Uninvite { .. } | Self::List(_) => None,
        }
    }
}

pub(crate) async fn run(args: NodeArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let command = match args.command {
        NodeCommand::Join(args) => return join::run(args, invocation).await.map(|()| Exit::Ok.into()),
        NodeCommand::Run(args) => return run::run(args, invocation).await.map(|()| Exit::Ok.into()),
        NodeCommand::Install(args) => {
            return service::install(&args, invocation).await.map(|()| Exit::Ok.into());
        }
        NodeCommand::Uninstall(args) => {
            return service::uninstall(&args, invocation).await.map(|()| Exit::Ok.into());
        }
        NodeCommand::Policy(args) => return policy::run(args, invocation),
        NodeCommand::Hub(command) => command,
    };
    let (out, hub) = (&invocation.out, invocation.hub()?);
    let node = command.node().map(str::to_owned);
    match run_on_hub(command, out, &hub).await {
        Ok(()) => Ok(Exit::Ok.into()),
        Err(error) => Err(with_suggestion(&hub, error, node.as_deref()).await),
    }
}

async fn run_on_hub(command: HubCommand, out: &Output, hub: &Hub) -> anyhow::Result<()> {
    match command {
        HubCommand::Invite(args) => invite::run(out, hub, args).await,
        HubCommand::Invites => invites::list(out, hub).await,
        HubCommand::Uninvite { name } => invites::revoke(out, hub, &name).await,
        HubCommand::Label(args) => label::run(out, hub, args).await,
        HubCommand::List(args) => list(out, hub, &args).await,
        HubCommand::Show { node } => show::run(out, hub, &node).await,
        HubCommand::Drain { node, off } => drain(out, hub, &node, !off).await,
        HubCommand::Remove { node, yes } => remove(out, hub, &node, yes).await,
        HubCommand::Rename { node, name } => {
            let change = ChangeNodeParams { name: Some(name), ..ChangeNodeParams::default() };
            let Some(renamed) = update(out, hub, &node, &change).await? else { return Ok(()) };
            out.line(&format!("{} is now {}.", one_line(&node), one_line(&renamed.name)))
        }
    }
}

/// Suggests the closest name if no machine has the given one, which is most likely a typo.
async fn with_suggestion(hub: &Hub, error: anyhow::Error, node: Option<&str>) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if let Some(node) = node.filter(|_| failure.code == Some(ErrorCode::NotFound))
        && let Some(suggestion) = listing::did_you_mean(hub, "nodes", "name", node).await
    {
        let hint = failure.hint.take().unwrap_or_default();
        failure.hint = Some(format!("Did you mean {}? {hint}", shell::name(&one_line(&suggestion))));
    }
    failure.into()
}

async fn list(out: &Output, hub: &Hub, args: &ListArgs) -> anyhow::Result<()> {
    let page = listing::fetch(hub, &["nodes"], &[], args, |_| true).await?;
    let row = |node: &Node| {
        vec![
            node.name.clone(),
            show::state(node),
            show::system(node),
            node.version.clone().unwrap_or_else(|| "-".to_owned()),
            show::round_trip(node),
            show::seen(node, |at| out.when(at)),
            show::labels(&node.labels),
        ]
    };
    let empty = "No machines. `plexus node invite NAME` prints the command that joins one.";
    let headers = ["NAME", "STATE", "SYSTEM", "VERSION", "RTT", "LAST SEEN", "LABELS"];
    listing::show(out, &page, &headers, row, empty)?;
    if let ([_], None, false) = (page.items.as_slice(), &page.next, out.json()) {
        out.note("`plexus node invite NAME` prints the command that joins another machine.");
    }
    Ok(())
}

async fn drain(out: &Output, hub: &Hub, node: &str, draining: bool) -> anyhow::Result<()> {
    let change = ChangeNodeParams { draining: Some(draining), ..ChangeNodeParams::default() };
    let Some(node) = update(out, hub, node, &change).await? else { return Ok(()) };
    let name = shell::name(&one_line(&node.name));
    match (draining, node.in_flight) {
        (false, _) => out.line(&format!("{name} accepts calls again.")),
        (true, 0) => out.line(&format!("{name} accepts no new calls. No calls are running there.")),
        (true, running) => out.line(&format!(
            "{name} accepts no new calls. {} still running; `plexus node show {name}` shows how many are left.",
            calls(running)
        )),
    }
}

/// Changes a machine and returns it; with `--json`, prints it and returns `None`.
async fn update(
    out: &Output,
    hub: &Hub,
    node: &str,
    change: &ChangeNodeParams,
) -> anyhow::Result<Option<Node>> {
    let answer = hub.patch(&["nodes", node], change).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(None);
    }
    answer.decode().map(Some)
}

async fn remove(out: &Output, hub: &Hub, node: &str, yes: bool) -> anyhow::Result<()> {
    if !yes {
        let found: Node = hub.get(&["nodes", node], &[]).await?.decode()?;
        if !confirm_removal(out, &found).await? {
            out.note("Nothing was removed.");
            return Ok(());
        }
    }
    let answer = hub.delete(&["nodes", node]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let RemovedNode { name, .. } = answer.decode()?;
    out.line(&format!("Removed {}. Its credential is revoked.", one_line(&name)))?;
    out.note(&format!("To add it again: `plexus node invite {}`.", shell::name(&one_line(&name))));
    Ok(())
}

/// Asks whether to remove the machine.
async fn confirm_removal(out: &Output, node: &Node) -> anyhow::Result<bool> {
    let name = one_line(&node.name);
    if !out.can_prompt() {
        let message = format!(
            "removing {name} revokes its credential, and there is no terminal to ask for confirmation"
        );
        return Err(Failure::new(Exit::Usage, message).hint("pass --yes to remove it").into());
    }
    let consequence = match (node.state, node.in_flight) {
        (NodeState::Online | NodeState::Unwell, 0) => " It is online.".to_owned(),
        (_, 0) => String::new(),
        (_, running) => format!(" {} running there and will end as interrupted.", calls(running)),
    };
    let question = format!("Remove {name}?{consequence} [y/N]");
    Ok(match out.prompt()?.ask(&question).await {
        PromptReply::Line(answer) => matches!(answer.as_str(), "y" | "yes"),
        PromptReply::Eof | PromptReply::Interrupted => false,
    })
}

fn calls(count: u64) -> String {
    if count == 1 { "1 call is".to_owned() } else { format!("{count} calls are") }
}
