//! Where an agent finds the hub: at a proxy that runs in this process, or straight at the hub.
//!
//! This is the one place that knows which of the two it is.

use plexus_kit::{Environment, Secret, env};
use plexus_node::runner::Via;
use tokio::sync::watch;

use crate::failure::{Exit, Failure};
use crate::target::Target;

/// Switches the proxy off.
const OFF: [&str; 3] = ["0", "false", "off"];

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
}

/// An address for the agent and what it presents there.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) via: Via,
}

/// A proxy, or why there is none; what is not worth a word is empty.
pub(crate) async fn try_proxy(
    wanted: &Wanted<'_>,
    require_proxy: bool,
) -> anyhow::Result<Result<Endpoint, Option<String>>> {
    let set = wanted.environment.get(env::PROXY);
    let switched_off = set.is_some_and(|set| OFF.contains(&set.to_ascii_lowercase().as_str()));
    let why = match switched_off {
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
#[expect(clippy::unused_async, reason = "starting one waits for its socket")]
async fn proxy(wanted: &Wanted<'_>) -> anyhow::Result<Endpoint> {
    let Wanted { target, token, agent, conversation, .. } = wanted;
    tracing::debug!(agent, conversation, hub = %target.url, has_token = token.borrow().is_some(), "no proxy");
    Err(anyhow::anyhow!("this build has none"))
}

/// The hub itself, with the token of the run.
pub(crate) fn direct(target: &Target, token: &Secret) -> Endpoint {
    let url = format!("{}/mcp", target.url.as_str().trim_end_matches('/'));
    Endpoint { url, secret: token.clone(), via: Via::Direct }
}
