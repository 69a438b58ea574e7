//! `plexus node run`: becomes the node that this machine has joined as.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use plexus_kit::config::UPSTREAMS_FOLDER;
use plexus_kit::{Clock, Stage, Supervisor, env};
use plexus_node::{Credential, Dialler, HubClient, Node, NodeOptions, Transport, external_agents};
use plexus_proto::api::JoinNodeParams;
use tokio_util::sync::CancellationToken;

use super::place::{self, TlsArgs};
use crate::arguments;
use crate::commands::Invocation;
use crate::commands::connect::local_agents::LocalAgents;
use crate::failure::{Exit, Failure};
use crate::output::{self, one_line};
use crate::signals::Signals;

/// Calls that run get so long to end when the node is told to stop.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is left after that, for each stage.
const GRACE: Duration = Duration::from_secs(5);
/// Between two attempts to join in vain.
const JOIN_AGAIN: Duration = Duration::from_secs(5);
/// The same where the hub said no: something has to be done first, by somebody.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// What carries the link: ws, poll, or auto: a WebSocket, and requests where those do not get through
    #[arg(long, value_name = "KIND", default_value_t)]
    transport: Transport,
    /// With PLEXUS_NODE_KEY and --hub, on a machine that has not joined: what it is to be called
    #[arg(long)]
    name: Option<String>,
    /// A label that the machine says of itself, such as role=nas; may be repeated. The hub's own win
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label)]
    labels: Vec<(String, String)>,
    /// Folder with one file for each MCP server to run here [default: mcp_servers.d in the data folder]
    #[arg(long, value_name = "DIR")]
    mcp_dir: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(super) async fn run(args: RunArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let data_dir = place::data_dir(invocation)?;
    // Before anything is started, so that a signal during start-up is not lost.
    let mut signals = Signals::new()?;
    let credential = tokio::select! {
        credential = membership(&args, invocation, &data_dir) => credential?,
        () = signals.next() => return Ok(()),
    };
    let tls = args.tls.options_or(&credential.tls)?;
    let hub = HubClient::new(&credential.hub, &tls).map_err(place::refused)?;
    let supervisor = Supervisor::new();
    let options = NodeOptions {
        labels: args.labels.iter().cloned().collect(),
        servers: Some(args.mcp_dir.clone().unwrap_or_else(|| data_dir.join(UPSTREAMS_FOLDER))),
        launcher: std::env::current_exe().ok(),
        ..NodeOptions::new(credential.node_id, data_dir.clone(), invocation.environment().clone())
    };
    // What this user has connected on this machine is looked after for the hub.
    let agents = LocalAgents::open_default(invocation)?
        .map(|desk| external_agents::tool(desk.keeper.for_hub(Some(&credential.hub))));
    let node = Node::open_with(options, agents.into_iter().collect(), &supervisor).await?;
    let work = match node.work_folder() {
        Ok(work) => format!("{}: commands start there, and relative paths begin there", work.display()),
        Err(why) => format!("none: {why}; `work` under [files] in node.toml names another one"),
    };
    output::announce(&format!(
        "Plexus node {} of {}.\n  Data folder     {}\n  Working folder  {work}\n\nStop with Ctrl-C.\n",
        one_line(&credential.name),
        one_line(&credential.hub),
        data_dir.display()
    ));
    let stop = CancellationToken::new();
    let dialler = Dialler::new(node.clone(), hub, (data_dir, credential), args.transport, &supervisor);
    supervisor.spawn(Stage::Intake, "link to the hub", dialler.run(stop.clone()));
    signals.next().await;
    tracing::info!("the node stops: calls that run have {} s to end", PATIENCE.as_secs());
    tokio::select! {
        () = node.stop(PATIENCE) => {}
        // Who asks twice is in a hurry.
        () = signals.next() => node.stop(Duration::ZERO).await,
    }
    stop.cancel();
    let drained = supervisor.shutdown(GRACE).await;
    match drained.aborted.as_slice() {
        [] => Ok(()),
        stuck => {
            Err(Failure::new(Exit::Failed, format!("stopped, but had to abort: {}", stuck.join(", "))).into())
        }
    }
}

/// What this machine has joined as; where it has not, it joins now if it was given the key of a hub.
async fn membership(
    args: &RunArgs,
    invocation: &Invocation<'_>,
    data_dir: &Path,
) -> anyhow::Result<Credential> {
    if let Some(credential) = place::joined(data_dir)? {
        return Ok(credential);
    }
    let environment = invocation.environment();
    let (Some(key), Some(address), Some(name)) =
        (environment.get(env::NODE_KEY), invocation.hub_address(), &args.name)
    else {
        let message = format!("this machine has not joined a hub (data folder {})", data_dir.display());
        let hint = "`plexus node invite NAME` on the hub prints the command to run here first. With PLEXUS_NODE_KEY, --hub \
                    and --name it joins by itself";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    };
    let hub = HubClient::new(address, &args.tls.options()?).map_err(place::refused)?;
    let labels = args.labels.iter().cloned().collect();
    let params = JoinNodeParams { code: None, key: Some(key.to_owned()), name: Some(name.clone()), labels };
    loop {
        let error = match hub.join(&params).await {
            Ok(given) => {
                let credential = Credential::new(&hub, given, &Clock::system());
                credential.write(data_dir)?;
                return Ok(credential);
            }
            Err(error) => error,
        };
        let pause = if error.is_retryable() { JOIN_AGAIN } else { REFUSED_AGAIN };
        tracing::error!(again = ?pause, "this machine could not join {}: {error}", hub.address());
        tokio::time::sleep(pause).await;
    }
}
