//! `plexus node run`: runs the node of this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use plexus_kit::config::UPSTREAMS_FOLDER;
use plexus_kit::{Clock, Stage, Supervisor, env};
use plexus_node::{Credential, Dialler, HubClient, Node, NodeOptions, Transport, external_agents};
use plexus_proto::api::JoinNodeParams;
use tokio_util::sync::CancellationToken;

use super::membership::{self, TlsArgs};
use crate::arguments;
use crate::commands::Invocation;
use crate::commands::connect::local_agents::LocalAgents;
use crate::failure::{Exit, Failure};
use crate::output::{self, one_line};
use crate::signals::Signals;

/// How long running calls have to end when the node stops.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of each stage of the shutdown after that.
const STAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to join.
const JOIN_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval after a refusal, which somebody has to fix first.
const REFUSED_RETRY_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Transport of the link: ws (WebSocket), poll (HTTP requests), or auto: WebSocket, with HTTP requests as fallback
    #[arg(long, value_name = "KIND", default_value_t)]
    transport: Transport,
    /// Name to join with, for a machine that has not joined yet; needs PLEXUS_NODE_KEY and --hub
    #[arg(long)]
    name: Option<String>,
    /// Label for this machine, such as role=nas (repeatable); labels set on the hub override it
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label)]
    labels: Vec<(String, String)>,
    /// Folder with one file per MCP server to run here [default: mcp_servers.d in the data folder]
    #[arg(long, value_name = "DIR")]
    mcp_dir: Option<PathBuf>,
    /// Log format [env: PLEXUS_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub(super) log_format: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(super) async fn run(args: RunArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let data_dir = membership::data_dir(invocation)?;
    // Installed before anything starts, so that a signal during start-up is not lost.
    let mut signals = Signals::new()?;
    let credential = tokio::select! {
        credential = load_or_join(&args, invocation, &data_dir) => credential?,
        () = signals.next() => return Ok(()),
    };
    let tls = args.tls.options_or(&credential.tls)?;
    let hub = HubClient::new(&credential.hub, &tls).map_err(membership::failure)?;
    let supervisor = Supervisor::new();
    let options = NodeOptions {
        labels: args.labels.iter().cloned().collect(),
        servers: Some(args.mcp_dir.clone().unwrap_or_else(|| data_dir.join(UPSTREAMS_FOLDER))),
        launcher: std::env::current_exe().ok(),
        ..NodeOptions::new(credential.node_id, data_dir.clone(), invocation.environment().clone())
    };
    // The hub keeps the agents that this user has connected on this machine up to date.
    let agents = LocalAgents::open_default(invocation)?
        .map(|desk| external_agents::tool(desk.keeper.for_hub(Some(&credential.hub))));
    let node = Node::open_with(options, agents.into_iter().collect(), &supervisor).await?;
    let work = match node.work_folder() {
        Ok(work) => format!("{} (commands and relative paths start there)", work.display()),
        Err(why) => format!("none: {why}; to choose another one, set `work` under [files] in node.toml"),
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
    tracing::info!("stopping; running calls have {} s to end", CALL_TIMEOUT.as_secs());
    tokio::select! {
        () = node.stop(CALL_TIMEOUT) => {}
        // A second signal stops the node at once.
        () = signals.next() => node.stop(Duration::ZERO).await,
    }
    stop.cancel();
    let drained = supervisor.shutdown(STAGE_TIMEOUT).await;
    match drained.aborted.as_slice() {
        [] => Ok(()),
        stuck => Err(Failure::new(
            Exit::Failed,
            format!("the node stopped, but these tasks had to be aborted: {}", stuck.join(", ")),
        )
        .into()),
    }
}

/// Reads the credential of this machine. If it has not joined yet and has the hub's key, joins it first.
async fn load_or_join(
    args: &RunArgs,
    invocation: &Invocation<'_>,
    data_dir: &Path,
) -> anyhow::Result<Credential> {
    if let Some(credential) = membership::credential(data_dir)? {
        return Ok(credential);
    }
    let environment = invocation.environment();
    let (Some(key), Some(address), Some(name)) =
        (environment.get(env::NODE_KEY), invocation.hub_address(), &args.name)
    else {
        let message = format!("this machine has not joined a hub (data folder {})", data_dir.display());
        let hint = "`plexus node invite NAME` on the hub prints the command to run here first. With PLEXUS_NODE_KEY, --hub \
                    and --name this machine joins automatically";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    };
    let hub = HubClient::new(address, &args.tls.options()?).map_err(membership::failure)?;
    let labels = args.labels.iter().cloned().collect();
    let params = JoinNodeParams { code: None, key: Some(key.to_owned()), name: Some(name.clone()), labels };
    loop {
        let error = match hub.join(&params).await {
            Ok(response) => {
                let credential = Credential::new(&hub, response, &Clock::system());
                credential.write(data_dir)?;
                return Ok(credential);
            }
            Err(error) => error,
        };
        let pause = if error.is_retryable() { JOIN_RETRY_INTERVAL } else { REFUSED_RETRY_INTERVAL };
        tracing::error!(retry_in = ?pause, "cannot join {}: {error}", hub.address());
        tokio::time::sleep(pause).await;
    }
}
