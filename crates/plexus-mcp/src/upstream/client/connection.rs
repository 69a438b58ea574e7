//! MCP over a pipe: the handshake of either era, and the methods.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use plexus_kit::Stage;
use plexus_proto::api::UpstreamEra;
use tokio::time::Instant;

use super::answer::{self, Undiscovered};
use super::message;
use super::pipe::{BorrowedPipe, Manner, Pipe};
use super::process::Process;
use super::{Called, ClientError, Connect, Definitions, Outgoing, Peer, SharedListener};

/// How long a server may think about `server/discover`. One of the session era may never answer it, and everyone who
/// waits for that server waits with it; one that only starts slowly is not misjudged, see [`discover`].
const PROBE: Duration = Duration::from_secs(3);
/// A subscription that ends sooner is not asked for again.
const SHORT_SUBSCRIPTION: Duration = Duration::from_secs(60);

/// How a server is first spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Asked for its era, and taken for one of the session era if it does not know that question.
    Discover,
    /// As one of the session era.
    Initialize,
}

/// A server that has said who it is.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pipe: Pipe,
    peer: Arc<Peer>,
    process: Option<Process>,
    patience: Duration,
    /// Bytes of one message.
    limit: usize,
}

impl Connection {
    /// The handshake. Has no time limit of its own; when it fails the pipe ends.
    pub(super) async fn open(
        pipe: Pipe,
        opening: Opening,
        process: Option<Process>,
        connect: &Connect,
    ) -> Result<Self, ClientError> {
        let peer = match opening {
            Opening::Discover => discover(&pipe).await?,
            Opening::Initialize => initialize(&pipe).await?,
        };
        if peer.era == UpstreamEra::Stateless && peer.announces_changes {
            let name = &connect.config.name;
            let task = subscribe(name.clone(), pipe.borrowed(), connect.listener.clone());
            connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: subscription"), task);
        }
        let settings = &connect.settings;
        let (patience, limit) = (settings.connect_timeout, settings.max_message);
        Ok(Self { pipe, peer: Arc::new(peer), process, patience, limit })
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) async fn list_tools(&self) -> Result<Definitions, ClientError> {
        let page = async |cursor: Option<String>| {
            let build = |id| message::list_tools(id, self.peer.era, cursor.as_deref());
            self.pipe.request(build, Manner::default()).await
        };
        self.timely("tools/list", answer::listed(&self.peer, self.limit, page)).await
    }

    pub(super) async fn call(&self, call: Outgoing) -> Called {
        let manner =
            Manner { progress: call.progress.clone(), cancel: Some(&call.cancel), ..Manner::default() };
        let result = self.pipe.request(|id| message::call(id, self.peer.era, &call), manner).await?;
        answer::called(&result)
    }

    pub(super) async fn ping(&self) -> Result<(), ClientError> {
        if self.peer.era == UpstreamEra::Stateless {
            return Ok(());
        }
        let pong = async { self.pipe.request(message::ping, Manner::default()).await.map(drop) };
        self.timely("ping", pong).await
    }

    pub(super) async fn closed(&self) -> String {
        self.pipe.closed().await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.pipe.has_ended()
    }

    pub(super) async fn close(&self) {
        self.pipe.close("the hub closed the connection");
        if let Some(process) = &self.process {
            process.ended().await;
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    async fn timely<T>(
        &self,
        method: &str,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| {
            let waited = self.patience.as_secs();
            Err(ClientError::Lost(format!("the server did not answer {method} within {waited} s")))
        })
    }
}

/// A server that is silent may be of the session era, or not have started to read. So `initialize` follows the
/// question without taking it back, and what the server says to the later one counts: it is in a session if it
/// agreed to one, and only otherwise what it had to say to the first.
async fn discover(pipe: &Pipe) -> Result<Peer, ClientError> {
    let mut asked = pin!(pipe.request(message::discover, quietly()));
    match tokio::time::timeout(PROBE, &mut asked).await {
        Ok(Ok(result)) => match answer::discovered(&result) {
            Ok(peer) => Ok(peer),
            // What it says of itself is of no use; it may still be older than that.
            Err(why) => initialize(pipe).await.map_err(|_| why),
        },
        Ok(Err(lost @ (ClientError::Lost(_) | ClientError::Unreachable(_) | ClientError::Busy(_)))) => {
            Err(lost)
        }
        Ok(Err(error)) => match answer::undiscovered(error) {
            Undiscovered::TryInitialize => initialize(pipe).await,
            Undiscovered::Refused(error) => Err(error),
        },
        Err(_) => {
            let refused = match initialize(pipe).await {
                Ok(peer) => return Ok(peer),
                Err(refused) => refused,
            };
            match tokio::time::timeout(PROBE, asked).await {
                Ok(Ok(result)) => answer::discovered(&result),
                _ => Err(refused),
            }
        }
    }
}

async fn initialize(pipe: &Pipe) -> Result<Peer, ClientError> {
    let result = pipe.request(message::initialize, quietly()).await?;
    let peer = answer::initialized(&result)?;
    pipe.notify(message::initialized()).await?;
    Ok(peer)
}

/// Nothing of a handshake is ever cancelled: a server may take what it does not expect there for its end.
fn quietly() -> Manner<'static> {
    Manner { quiet: true, ..Manner::default() }
}

/// In the stateless era a server says that its tools have changed only to those who asked.
async fn subscribe(server: String, pipe: BorrowedPipe, listener: SharedListener) {
    loop {
        let begun = Instant::now();
        let ended = pipe.request(message::listen, Manner::default()).await;
        if pipe.has_ended() {
            return;
        }
        if begun.elapsed() < SHORT_SUBSCRIPTION {
            let why = ended.err().map(|error| error.to_string());
            tracing::warn!(%server, ?why, "the server does not say when its tools change");
            return;
        }
        // Nobody has said what changed since.
        listener.tools_changed();
    }
}
