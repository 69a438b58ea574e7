//! Where an agent finds the hub: at a proxy that runs in this process, or straight at the hub.
//!
//! This is the one place that knows which of the two it is.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::{Environment, Secret, Supervisor, env};
use plexus_proxy::runner::HubRoute;
use plexus_proxy::{CredentialSource, Proxy, ProxyOptions};
use tokio::sync::watch;

use crate::client::pinned;
use crate::commands::mcp::{is_off, make_secret};
use crate::failure::{Exit, Failure};
use crate::target::Target;

/// For what is under way to end when the proxy does.
const GRACE: Duration = Duration::from_secs(2);

/// For whom it is.
pub(crate) struct Wanted<'a> {
    pub(crate) target: &'a Target,
    /// The token of the run, which is made after the proxy was started, and later still where the hub is away.
    pub(crate) token: &'a watch::Receiver<Option<Secret>>,
    /// The agent, by which a proxy of an earlier run is known.
    pub(crate) agent: &'a str,
    /// The conversation, where the agent itself does not tell the hub of it.
    pub(crate) conversation: Option<&'a str>,
    pub(crate) environment: &'a Environment,
    pub(crate) data_dir: &'a Path,
}

/// An address for the agent and what it presents there.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) via: HubRoute,
    running: Option<(Proxy, Supervisor)>,
}

/// A proxy, or why there is none; what is not worth a word is empty.
pub(crate) async fn try_proxy(
    wanted: &Wanted<'_>,
    require_proxy: bool,
) -> anyhow::Result<Result<Endpoint, Option<String>>> {
    let why = match is_off(wanted.environment) {
        true => None,
        false => match proxy(wanted).await {
            Ok(endpoint) => return Ok(Ok(endpoint)),
            Err(error) => Some(format!("{error:#}")),
        },
    };
    if require_proxy {
        let why = why.unwrap_or_else(|| format!("{} switches it off", env::PROXY.name));
        return Err(Failure::new(Exit::Failed, format!("the proxy cannot start: {why}"))
            .hint("leave --require-proxy out to connect the agent straight to the hub")
            .into());
    }
    Ok(Err(
        why.map(|why| format!("the proxy cannot start: {why}; the agent is connected straight to the hub"))
    ))
}

/// Starts the proxy in this process.
async fn proxy(wanted: &Wanted<'_>) -> anyhow::Result<Endpoint> {
    let Wanted { target, token, agent, conversation, data_dir, .. } = wanted;
    // What an earlier run of the agent left is of the same subject: tokens of runs have the name of their maker and the agent.
    let whose = format!("session:{}/{agent}", target.subject());
    let folder = plexus_proxy::proxy_folder(data_dir, agent, &whose, &target.url);
    let options = ProxyOptions {
        workspace: std::env::current_dir().ok().and_then(|folder| Some(folder.to_str()?.to_owned())),
        tls: target.certificate.as_deref().map(pinned::tls_config).transpose()?.map(Arc::new),
        session: conversation.map(str::to_owned),
        ..ProxyOptions::new(target.url.clone(), CredentialSource::Supplied((*token).clone()), agent, folder)
    };
    let (supervisor, secret) = (Supervisor::new(), make_secret()?);
    let proxy = Proxy::open(options, &supervisor).await?;
    let bound = proxy.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &secret).await?;
    Ok(Endpoint { url: bound.url, secret, via: HubRoute::Proxy, running: Some((proxy, supervisor)) })
}

impl Endpoint {
    /// Ends the proxy. How many writes of the agent still wait for the hub.
    pub(crate) async fn close(&self) -> u64 {
        let Some((proxy, supervisor)) = &self.running else { return 0 };
        let waiting = proxy.pending_writes().await.unwrap_or_default();
        supervisor.shutdown(GRACE).await;
        waiting
    }
}

/// The hub itself, with the token of the run.
pub(crate) fn direct(target: &Target, token: &Secret) -> Endpoint {
    let url = format!("{}/mcp", target.url.as_str().trim_end_matches('/'));
    Endpoint { url, secret: token.clone(), via: HubRoute::Direct, running: None }
}
