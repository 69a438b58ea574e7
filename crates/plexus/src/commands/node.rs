//! `plexus node`: the machines that tools run on.
//!
//! `join`, `run`, `policy`, `install` and `uninstall` are for the machine itself; the others are clients of the hub.

mod invite;
mod invites;
mod join;
mod label;
mod place;
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
    /// Whether this process becomes a node, rather than a client of a hub.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self.command, NodeCommand::Run(_))
    }
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Make this machine a node of a hub; its own commands use --data-dir for the node's folder [env:
    /// PLEXUS_NODE_DATA_DIR] [default: ~/.local/share/plexus-node]
    #[command(after_help = "Example:\n  plexus node join https://hub.example CODE")]
    Join(join::JoinArgs),
    /// Run the node that this machine has joined as, until it is told to stop
    #[command(
        after_help = "SIGTERM and SIGINT let calls that run end for a while, say goodbye to the hub and stop.\n\n\
Example:\n  plexus node run\n  PLEXUS_NODE_KEY=... plexus node run --hub https://hub.example --name nas"
    )]
    Run(run::RunArgs),
    /// Have systemd run the node of this machine
    #[command(
        after_help = "The unit is of the user who runs this, or of the machine for root. It is written once; change it with `systemctl \
edit`.\n\n\
Example:\n  plexus node install --print\n  plexus node install --user --now\n  sudo plexus node install --system"
    )]
    Install(InstallArgs),
    /// Take the unit of the node away again; what it joined as stays
    #[command(after_help = "Example:\n  plexus node uninstall --user --now")]
    Uninstall(UninstallArgs),
    /// Show what may be done on this machine, whatever a hub asks for, and what holds commands to it
    #[command(
        after_help = "The file is node.toml in the node's folder, and is read anew when it changes.\n\n\
Example:\n  plexus node policy\n  plexus node policy --local\n  plexus node policy --default > node.toml\n  \
plexus node policy --check node.toml"
    )]
    Policy(policy::PolicyArgs),
    #[command(flatten)]
    OfHub(HubCommand),
}

/// What a hub is asked to do.
#[derive(Debug, Subcommand)]
enum HubCommand {
    /// Print the command with which another machine joins this hub
    #[command(
        after_help = "The code in it is good once, for one machine, until it expires. Inviting the same name again ends the \
code before.\n\n\
Example:\n  plexus node invite nas --label role=storage --ttl 1h"
    )]
    Invite(invite::InviteArgs),
    /// List invitations that nobody has used yet
    #[command(
        after_help = "Their codes were printed once and are not shown again; inviting the name again makes a new one.\n\n\
Example:\n  plexus node invites"
    )]
    Invites,
    /// End the code with which a machine could still join
    #[command(after_help = "Example:\n  plexus node uninvite nas")]
    Uninvite {
        /// Who was invited
        name: String,
    },
    /// List the machines and how each is doing
    #[command(visible_alias = "ls", after_help = "Example:\n  plexus node list")]
    List(ListArgs),
    /// Show a machine: its state, its labels, its tools and MCP servers
    #[command(after_help = "Example:\n  plexus node show nas")]
    Show {
        /// Name or id of the machine
        node: String,
    },
    /// Send no new calls to a machine; those that run there go on
    #[command(after_help = "Example:\n  plexus node drain nas\n  plexus node drain nas --off")]
    Drain {
        /// Name or id of the machine
        node: String,
        /// Send calls to it again
        #[arg(long)]
        off: bool,
    },
    /// Take a machine away: it is cut off, and its credential ends
    #[command(visible_alias = "rm", after_help = "Example:\n  plexus node remove nas --yes")]
    Remove {
        /// Name or id of the machine
        node: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Give a machine labels of the hub's, or take them away
    #[command(
        after_help = "Labels that the machine says of itself (`plexus node run --label`) stay; the hub's win over them.\n\n\
Example:\n  plexus node label nas role=storage floor-"
    )]
    Label(label::LabelArgs),
    /// Give a machine another name; scopes, profiles and tokens that name it do not follow
    #[command(after_help = "Example:\n  plexus node rename nas cellar")]
    Rename {
        /// Name or id of the machine
        node: String,
        /// The new name
        name: String,
    },
}

impl HubCommand {
    /// The machine that has to be there.
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
        NodeCommand::OfHub(command) => command,
    };
    let (out, hub) = (&invocation.out, invocation.hub()?);
    let node = command.node().map(str::to_owned);
    match act(command, out, &hub).await {
        Ok(()) => Ok(Exit::Ok.into()),
        Err(error) => Err(misspelt(&hub, error, node.as_deref()).await),
    }
}

async fn act(command: HubCommand, out: &Output, hub: &Hub) -> anyhow::Result<()> {
    match command {
        HubCommand::Invite(args) => invite::run(out, hub, args).await,
        HubCommand::Invites => invites::list(out, hub).await,
        HubCommand::Uninvite { name } => invites::withdraw(out, hub, &name).await,
        HubCommand::Label(args) => label::run(out, hub, args).await,
        HubCommand::List(args) => list(out, hub, &args).await,
        HubCommand::Show { node } => show::run(out, hub, &node).await,
        HubCommand::Drain { node, off } => drain(out, hub, &node, !off).await,
        HubCommand::Remove { node, yes } => remove(out, hub, &node, yes).await,
        HubCommand::Rename { node, name } => {
            let change = ChangeNodeParams { name: Some(name), ..ChangeNodeParams::default() };
            let Some(renamed) = changed(out, hub, &node, &change).await? else { return Ok(()) };
            out.line(&format!("{} is now {}.", one_line(&node), one_line(&renamed.name)))
        }
    }
}

/// A name that no machine has is most likely one of another spelling.
async fn misspelt(hub: &Hub, error: anyhow::Error, node: Option<&str>) -> anyhow::Error {
    let mut failure = match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => return error,
    };
    if let Some(node) = node.filter(|_| failure.code == Some(ErrorCode::NotFound))
        && let Some(meant) = listing::did_you_mean(hub, "nodes", "name", node).await
    {
        let hint = failure.hint.take().unwrap_or_default();
        failure.hint = Some(format!("Did you mean {}? {hint}", shell::name(&one_line(&meant))));
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
    let empty = "No machines. `plexus node invite NAME` prints the command with which one joins.";
    let headers = ["NAME", "STATE", "SYSTEM", "VERSION", "RTT", "LAST SEEN", "LABELS"];
    listing::show(out, &page, &headers, row, empty)?;
    if let ([_], None, false) = (page.items.as_slice(), &page.next, out.json()) {
        out.note("`plexus node invite NAME` prints the command with which another machine joins.");
    }
    Ok(())
}

async fn drain(out: &Output, hub: &Hub, node: &str, draining: bool) -> anyhow::Result<()> {
    let change = ChangeNodeParams { draining: Some(draining), ..ChangeNodeParams::default() };
    let Some(node) = changed(out, hub, node, &change).await? else { return Ok(()) };
    let name = shell::name(&one_line(&node.name));
    match (draining, node.in_flight) {
        (false, _) => out.line(&format!("{name} takes calls again.")),
        (true, 0) => out.line(&format!("{name} takes no new calls. Nothing runs there.")),
        (true, running) => out.line(&format!(
            "{name} takes no new calls. {} under way; `plexus node show {name}` says when there are none.",
            calls(running)
        )),
    }
}

/// Changes a machine; none where a program was told already.
async fn changed(
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
        if !agreed(out, &found).await? {
            out.note("Nothing was removed.");
            return Ok(());
        }
    }
    let answer = hub.delete(&["nodes", node]).await?;
    if out.json() {
        return out.json_line(answer.raw().get());
    }
    let RemovedNode { name, .. } = answer.decode()?;
    out.line(&format!("Removed {}. Its credential has ended.", one_line(&name)))?;
    out.note(&format!("To have it back, invite it: `plexus node invite {}`.", shell::name(&one_line(&name))));
    Ok(())
}

/// Whether the person says that this machine may go.
async fn agreed(out: &Output, node: &Node) -> anyhow::Result<bool> {
    let name = one_line(&node.name);
    if !out.can_prompt() {
        let message = format!("removing {name} ends its credential, and there is nobody to ask");
        return Err(Failure::new(Exit::Usage, message).hint("pass --yes to remove it").into());
    }
    let doing = match (node.state, node.in_flight) {
        (NodeState::Online | NodeState::Unwell, 0) => " It is linked now.".to_owned(),
        (_, 0) => String::new(),
        (_, running) => format!(" {} under way there, and will end as interrupted.", calls(running)),
    };
    let question = format!("Remove {name}?{doing} [y/N]");
    Ok(match out.prompt()?.ask(&question).await {
        PromptReply::Line(answer) => matches!(answer.as_str(), "y" | "yes"),
        PromptReply::Eof | PromptReply::Interrupted => false,
    })
}

fn calls(count: u64) -> String {
    if count == 1 { "1 call is".to_owned() } else { format!("{count} calls are") }
}
