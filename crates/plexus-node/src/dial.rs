//! Dials the hub, serves the link, and dials again when the link ends.

mod reconnect_delays;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use plexus_kit::{Clock, Supervisor};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::credential::{Credential, CurrentCredential};
use crate::hub_client::HubClient;
use crate::link::{Link, LinkError, poll, ws};
use crate::{LinkSummary, Node};
use reconnect_delays::ReconnectDelays;

pub use reconnect_delays::Jitter;

/// Time limit for connecting, and for the WebSocket upgrade.
const OPEN: Duration = Duration::from_secs(15);
/// Time until WebSockets are tried again after they were blocked.
const RETRY_WEBSOCKET: Duration = Duration::from_secs(600);

/// The transport of the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// A WebSocket, or HTTP requests if WebSockets are blocked.
    #[default]
    Auto,
    Ws,
    Poll,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "ws" => Ok(Self::Ws),
            "poll" => Ok(Self::Poll),
            other => Err(format!("{other:?} is not one of auto, ws and poll")),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Ws => "ws",
            Self::Poll => "poll",
        })
    }
}

/// Keeps a node linked to its hub.
#[derive(Debug)]
pub struct Dialler {
    node: Node,
    hub: HubClient,
    credential: Arc<CurrentCredential>,
    transport: Transport,
    jitter: Jitter,
    supervisor: Supervisor,
    /// When WebSockets were found to be blocked.
    websocket_blocked: Option<Instant>,
    /// The credential presented last.
    presented: Option<HeaderValue>,
}

impl Dialler {
    #[must_use]
    pub fn new(
        node: Node,
        hub: HubClient,
        (data_dir, credential): (PathBuf, Credential),
        transport: Transport,
        supervisor: &Supervisor,
    ) -> Self {
        Self {
            node,
            hub,
            credential: Arc::new(CurrentCredential::new(data_dir, credential, Clock::system())),
            transport,
            jitter: Jitter::random(),
            supervisor: supervisor.clone(),
            websocket_blocked: None,
            presented: None,
        }
    }

    /// Sets the jitter of the delays, for tests.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// Keeps the node linked until `stop` is cancelled or the node leaves.
    pub async fn run(mut self, stop: CancellationToken) {
        let (hub, credential) = (self.hub.clone(), self.credential.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = credential.keep_fresh(&hub) => {}
            () = self.keep_linked() => {}
        }
    }

    /// Returns when the node has left the hub.
    async fn keep_linked(&mut self) {
        let mut delays = ReconnectDelays::new(self.jitter.clone());
        loop {
            let (duration, end) = match self.open().await {
                Ok(link) => {
                    let transport = link.transport;
                    let LinkSummary { welcome, duration, left, end } = self.node.serve(link).await;
                    if left {
                        return;
                    }
                    if welcome.is_none() && transport == "ws" && matches!(end, LinkError::Broken(_)) {
                        // An intermediary lets a WebSocket be opened but passes nothing through it.
                        self.websocket_blocked = Some(Instant::now());
                    }
                    (duration, end)
                }
                Err(end) => (Duration::ZERO, end),
            };
            let pause = match &end {
                // It was replaced since then, by a renewal or by a user.
                LinkError::Refused(_)
                    if self.credential.authorization() != self.presented || self.credential.reread() =>
                {
                    tracing::info!("the credential was replaced; linking with the new one");
                    continue;
                }
                LinkError::Refused(_) | LinkError::Fenced => delays.after_refusal(),
                _ => delays.after_loss(duration),
            };
            self.log_end(&end, pause);
            sleep(pause).await;
        }
    }

    /// Logs why there is no link, and what the user can do.
    fn log_end(&self, end: &LinkError, pause: Duration) {
        let (hub, again) = (self.hub.address(), format!("{} ms", pause.as_millis()));
        match end {
            LinkError::Refused(why) => tracing::error!(
                hub,
                again,
                "the hub refused this node: {why}. If the node was removed or its credential has expired, run `plexus node \
                invite` on the hub, and on this machine the `plexus node join` command that it prints"
            ),
            LinkError::Fenced => tracing::error!(
                hub,
                again,
                "another process is linked as this node: stop one of them, or let this machine join as a separate node"
            ),
            end => tracing::warn!(hub, again, "no link to the hub: {end}"),
        }
    }

    /// Reads the client certificate again: its file is replaced before it expires.
    fn reread_certificate(&mut self) {
        let files = self.hub.files();
        if files.identity.is_none() {
            return;
        }
        match HubClient::new(self.hub.address(), files) {
            Ok(hub) => self.hub = hub,
            Err(error) => {
                tracing::warn!(%error, "cannot read the node's certificate again; the previous one is used")
            }
        }
    }

    async fn open(&mut self) -> Result<Link, LinkError> {
        self.reread_certificate();
        self.presented = self.credential.authorization();
        let use_websocket = match self.transport {
            Transport::Ws => true,
            Transport::Poll => false,
            Transport::Auto => self.websocket_blocked.is_none_or(|at| at.elapsed() >= RETRY_WEBSOCKET),
        };
        if !use_websocket {
            return self.poll();
        }
        let url =
            self.hub.websocket_url(self.node.id()).map_err(|error| LinkError::Broken(error.to_string()))?;
        match ws::open(&url, self.presented.as_ref(), self.hub.tls(), OPEN).await {
            Ok(link) => {
                self.websocket_blocked = None;
                Ok(link)
            }
            Err(ws::WsOpenError::Refused(why)) => Err(LinkError::Refused(why)),
            Err(ws::WsOpenError::Unreachable(why)) => Err(LinkError::Broken(why)),
            Err(ws::WsOpenError::NoUpgrade(why)) if self.transport == Transport::Auto => {
                tracing::info!("WebSockets are blocked on the way to the hub ({why}); using HTTP requests");
                self.websocket_blocked = Some(Instant::now());
                self.poll()
            }
            Err(ws::WsOpenError::NoUpgrade(why)) => Err(LinkError::Broken(format!(
                "WebSockets are blocked on the way to the hub ({why}); `--transport auto` would use HTTP requests"
            ))),
        }
    }

    fn poll(&self) -> Result<Link, LinkError> {
        let endpoint = self.hub.poll_endpoint(self.node.id(), self.presented.clone());
        let endpoint = endpoint.map_err(|error| LinkError::Broken(error.to_string()))?;
        Ok(poll::open(endpoint, &self.supervisor))
    }
}
