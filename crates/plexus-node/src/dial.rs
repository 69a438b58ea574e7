//! The way to the hub: dials, serves the link, and dials again when it is gone.

mod pauses;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use plexus_kit::{Clock, Supervisor};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::credential::{Credential, InUse};
use crate::hub::Hub;
use crate::link::{Link, LinkError, poll, ws};
use crate::{Node, Served};
use pauses::Pauses;

pub use pauses::Jitter;

/// To connect, and to have the connection upgraded.
const OPEN: Duration = Duration::from_secs(15);
/// Where WebSockets did not get through they are tried again after this.
const SOCKETS_AGAIN: Duration = Duration::from_secs(600);

/// What carries the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// A WebSocket, and requests where those do not get through.
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
            other => Err(format!("{other:?} is none of auto, ws and poll")),
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
    hub: Hub,
    credential: Arc<InUse>,
    transport: Transport,
    jitter: Jitter,
    supervisor: Supervisor,
    /// WebSockets did not get through at this time.
    no_sockets: Option<Instant>,
    /// What was presented last.
    presented: Option<HeaderValue>,
}

impl Dialler {
    #[must_use]
    pub fn new(
        node: Node,
        hub: Hub,
        (data_dir, credential): (PathBuf, Credential),
        transport: Transport,
        supervisor: &Supervisor,
    ) -> Self {
        Self {
            node,
            hub,
            credential: Arc::new(InUse::new(data_dir, credential, Clock::system())),
            transport,
            jitter: Jitter::random(),
            supervisor: supervisor.clone(),
            no_sockets: None,
            presented: None,
        }
    }

    /// The same with pauses that are not left to chance.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// Keeps the node linked until it is told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let (hub, credential) = (self.hub.clone(), self.credential.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = credential.keep_fresh(&hub) => {}
            () = self.keep_linked() => {}
        }
    }

    /// Returns when the node has left its hub.
    async fn keep_linked(&mut self) {
        let mut pauses = Pauses::new(self.jitter.clone());
        loop {
            let (lasted, end) = match self.open().await {
                Ok(link) => {
                    let transport = link.transport;
                    let Served { welcome, lasted, left, end } = self.node.serve(link).await;
                    if left {
                        return;
                    }
                    if welcome.is_none() && transport == "ws" && matches!(end, LinkError::Broken(_)) {
                        // Something on the way lets a WebSocket be opened and nothing through it.
                        self.no_sockets = Some(Instant::now());
                    }
                    (lasted, end)
                }
                Err(end) => (Duration::ZERO, end),
            };
            let pause = match &end {
                // Renewed since then, by the node itself or by a person.
                LinkError::Refused(_)
                    if self.credential.authorization() != self.presented || self.credential.reread() =>
                {
                    tracing::info!("the credential was replaced: linking with the new one");
                    continue;
                }
                LinkError::Refused(_) | LinkError::Fenced => pauses.unwanted(),
                _ => pauses.lost(lasted),
            };
            self.tell(&end, pause);
            sleep(pause).await;
        }
    }

    /// Says why there is no link, and what to do where a person can do something.
    fn tell(&self, end: &LinkError, pause: Duration) {
        let (hub, again) = (self.hub.address(), format!("{} ms", pause.as_millis()));
        match end {
            LinkError::Refused(why) => tracing::error!(
                hub,
                again,
                "the hub does not let this node in: {why}. If it was removed or its credential has expired, have it invited \
                 again (`plexus node invite` on the hub) and run the `plexus node join` command that this prints"
            ),
            LinkError::Fenced => tracing::error!(
                hub,
                again,
                "another process is linked as this node: stop one of them, or have this machine join as a node of its own"
            ),
            end => tracing::warn!(hub, again, "no link to the hub: {end}"),
        }
    }

    /// Certificates are replaced in their files before they expire, and are shown when a connection is opened.
    fn reread_certificate(&mut self) {
        let files = self.hub.files();
        if files.identity.is_none() {
            return;
        }
        match Hub::new(self.hub.address(), files) {
            Ok(hub) => self.hub = hub,
            Err(error) => {
                tracing::warn!(%error, "the node's certificate cannot be read again; the one before is shown")
            }
        }
    }

    async fn open(&mut self) -> Result<Link, LinkError> {
        self.reread_certificate();
        self.presented = self.credential.authorization();
        let sockets = match self.transport {
            Transport::Ws => true,
            Transport::Poll => false,
            Transport::Auto => self.no_sockets.is_none_or(|at| at.elapsed() >= SOCKETS_AGAIN),
        };
        if !sockets {
            return self.poll();
        }
        let url = self.hub.socket(self.node.id()).map_err(|error| LinkError::Broken(error.to_string()))?;
        match ws::open(&url, self.presented.as_ref(), self.hub.tls(), OPEN).await {
            Ok(link) => {
                self.no_sockets = None;
                Ok(link)
            }
            Err(ws::Unopened::Refused(why)) => Err(LinkError::Refused(why)),
            Err(ws::Unopened::Unreachable(why)) => Err(LinkError::Broken(why)),
            Err(ws::Unopened::NoUpgrade(why)) if self.transport == Transport::Auto => {
                tracing::info!("a WebSocket does not get through to the hub ({why}); going on by requests");
                self.no_sockets = Some(Instant::now());
                self.poll()
            }
            Err(ws::Unopened::NoUpgrade(why)) => Err(LinkError::Broken(format!(
                "a WebSocket does not get through ({why}); `--transport auto` would go on by requests"
            ))),
        }
    }

    fn poll(&self) -> Result<Link, LinkError> {
        let exchange = self.hub.exchange(self.node.id(), self.presented.clone());
        let exchange = exchange.map_err(|error| LinkError::Broken(error.to_string()))?;
        Ok(poll::open(exchange, &self.supervisor))
    }
}
