//! The endpoint that an agent connects to: a proxy in this process, or the hub itself.
//!
//! No other module depends on which of the two it is.

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

/// Time limit for running requests when the proxy stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Options of the proxy.
pub(crate) struct EndpointOptions<'a> {
    pub(crate) target: &'a Target,
    /// The token of the run. It is created after the proxy has started, or later if the hub is unreachable.
    pub(crate) token: &'a watch::Receiver<Option<Secret>>,
    /// Name of the agent. Its runs share the proxy's folder, with the outbox.
    pub(crate) agent: &'a str,
    /// The conversation, if the agent does not send it to the hub itself.
    pub(crate) conversation: Option<&'a str>,
    pub(crate) environment: &'a Environment,
    pub(crate) data_dir: &'a Path,
}

/// A URL for the agent, and the secret that it authenticates with.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) via: HubRoute,
    running: Option<(Proxy, Supervisor)>,
}

/// Starts the proxy. The inner error is a note for the user about the failure, or `None` if the proxy is disabled.
pub(crate) async fn try_proxy(
    options: &EndpointOptions<'_>,
    require_proxy: bool,
) -> anyhow::Result<Result<Endpoint, Option<String>>> {
    let reason = match is_off(options.environment) {
        true => None,
        false => match start_proxy(options).await {
            Ok(endpoint) => return Ok(Ok(endpoint)),
            Err(error) => Some(format!("{error:#}")),
        },
    };
    if require_proxy {
        let reason = reason.unwrap_or_else(|| format!("{} disables it", env::PROXY.name));
        return Err(Failure::new(Exit::Failed, format!("the proxy cannot start: {reason}"))
            .hint("omit --require-proxy to connect the agent directly to the hub")
            .into());
    }
    Ok(Err(reason
        .map(|reason| format!("the proxy cannot start: {reason}; the agent connects directly to the hub"))))
}

async fn start_proxy(options: &EndpointOptions<'_>) -> anyhow::Result<Endpoint> {
    let EndpointOptions { target, token, agent, conversation, data_dir, .. } = options;
    // All runs of the agent by this user have the same subject, so this run delivers the writes that earlier ones left.
    let subject = format!("session:{}/{agent}", target.subject());
    let folder = plexus_proxy::proxy_folder(data_dir, agent, &subject, &target.url);
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
    /// Stops the proxy. Returns the number of the agent's writes that still wait for the hub.
    pub(crate) async fn close(&self) -> u64 {
        let Some((proxy, supervisor)) = &self.running else { return 0 };
        let waiting = proxy.pending_writes().await.unwrap_or_default();
        supervisor.shutdown(SHUTDOWN_TIMEOUT).await;
        waiting
    }
}

/// The hub itself as the endpoint, with the token of the run.
pub(crate) fn direct(target: &Target, token: &Secret) -> Endpoint {
    let url = format!("{}/mcp", target.url.as_str().trim_end_matches('/'));
    Endpoint { url, secret: token.clone(), via: HubRoute::Direct, running: None }
}
