//! MCP over a pipe: the handshake of either era, and the methods.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::Stage;
use plexus_proto::api::UpstreamEra;
use plexus_tools::Capabilities;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer::{self, Undiscovered};
use super::following::LogVerbosity;
use super::message::{self, RequestMeta};
use super::pipe::{BorrowedPipe, Manner, Pipe, Present};
use super::process::Process;
use super::selection::Selection;
use super::subscriptions::{Subscriptions, TAKING_NOTE};
use super::{
    Bridge, Called, ClientError, Connect, Definitions, Listed, News, Offers, Outgoing, Peer, Replied,
    Request, SharedListener,
};

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
    /// Whether the server may answer with a task.
    follows: bool,
    verbosity: Arc<LogVerbosity>,
    subscriptions: Arc<Subscriptions>,
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
            Opening::Discover => discover(&pipe, connect.capabilities).await?,
            Opening::Initialize => initialize(&pipe, connect.capabilities).await?,
        };
        let subscriptions = Arc::new(Subscriptions::new());
        let offers = peer.offers;
        if peer.era == UpstreamEra::Stateless && (offers.changes() || offers.subscribe) {
            let name = &connect.config.name;
            let (pipe, listener) = (pipe.borrowed(), connect.listener.clone());
            let listening =
                Listening { server: name.clone(), pipe, listener, offers, of: subscriptions.clone() };
            let task = listening.run();
            connect.supervisor.spawn(Stage::Storage, format!("upstream {name}: subscription"), task);
        }
        let settings = &connect.settings;
        let (patience, limit) = (settings.connect_timeout, settings.max_message);
        let follows = offers.tasks && connect.config.questions;
        let verbosity = Arc::new(LogVerbosity::new());
        Ok(Self { pipe, peer: Arc::new(peer), process, patience, limit, follows, verbosity, subscriptions })
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) async fn list(&self, what: Listed) -> Result<Definitions, ClientError> {
        let page = async |cursor: Option<String>| {
            let build = |id| message::list(id, self.peer.era, what.method(), cursor.as_deref());
            self.pipe.request(build, Manner::default()).await
        };
        self.timely(what.method(), answer::listed(&self.peer, what, self.limit, page)).await
    }

    pub(super) async fn call(&self, call: Outgoing) -> Called {
        let manner = Manner {
            progress: call.progress.clone(),
            cancel: Some(&call.cancel),
            bridge: Some(call.bridge.clone()),
            ..Manner::default()
        };
        let said = RequestMeta { trace: call.trace.as_ref(), ..self.said(&call.bridge) };
        let result = self.pipe.request(|id| message::call(id, &call, said), manner).await?;
        answer::called(&result)
    }

    pub(super) async fn request(&self, request: Request) -> Result<Replied, ClientError> {
        let name = request.method.name();
        let said = RequestMeta { trace: request.trace.as_ref(), ..self.said(&request.bridge) };
        let manner = Manner {
            cancel: request.cancel.as_ref(),
            bridge: request.cancel.is_some().then(|| request.bridge.clone()),
            ..Manner::default()
        };
        let asked = self.pipe.request(|id| message::request(id, &request, said), manner);
        let result = match request.cancel {
            Some(_) => asked.await?,
            None => self.timely(name, asked).await?,
        };
        answer::replied(result, name)
    }

    fn said(&self, bridge: &Bridge) -> RequestMeta<'static> {
        RequestMeta::of(self.peer.era, bridge, self.follows)
    }

    pub(super) fn verbosity(&self) -> &LogVerbosity {
        &self.verbosity
    }

    pub(super) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    pub(super) fn present(&self, bridge: Bridge) -> Present {
        self.pipe.present(bridge)
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
async fn discover(pipe: &Pipe, can: Capabilities) -> Result<Peer, ClientError> {
    let mut asked = pin!(pipe.request(message::discover, quietly()));
    match tokio::time::timeout(PROBE, &mut asked).await {
        Ok(Ok(result)) => match answer::discovered(&result) {
            Ok(peer) => Ok(peer),
            // What it says of itself is of no use; it may still be older than that.
            Err(why) => initialize(pipe, can).await.map_err(|_| why),
        },
        Ok(Err(lost @ (ClientError::Lost(_) | ClientError::Unreachable(_) | ClientError::Busy(_)))) => {
            Err(lost)
        }
        Ok(Err(error)) => match answer::undiscovered(error) {
            Undiscovered::TryInitialize => initialize(pipe, can).await,
            Undiscovered::Refused(error) => Err(error),
        },
        Err(_) => {
            let refused = match initialize(pipe, can).await {
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

async fn initialize(pipe: &Pipe, can: Capabilities) -> Result<Peer, ClientError> {
    let result = pipe.request(|id| message::initialize(id, can), quietly()).await?;
    let peer = answer::initialized(&result)?;
    pipe.notify(message::initialized()).await?;
    Ok(peer)
}

/// Nothing of a handshake is ever cancelled: a server may take what it does not expect there for its end.
fn quietly() -> Manner<'static> {
    Manner { quiet: true, ..Manner::default() }
}

/// In the stateless era a server says what has changed only to those who asked.
struct Listening {
    server: String,
    pipe: BorrowedPipe,
    listener: SharedListener,
    offers: Offers,
    of: Arc<Subscriptions>,
}

impl Listening {
    async fn run(self) {
        self.listen().await;
        // Nobody need wait for one who no longer listens.
        self.of.acknowledge(u64::MAX);
    }

    /// For as long as the server has something to say.
    async fn listen(&self) {
        let mut wanted = self.of.wanted();
        let mut now = wanted.borrow_and_update().clone();
        let mut selection = Selection::new(self.offers.changes());
        let mut listening: Option<Listened<'_>> = None;
        loop {
            let asked = selection.next(&now.uris);
            let is_asked = listening.as_ref().is_some_and(|listened| listened.uris == asked);
            let nothing = asked.is_empty() && !self.offers.changes();
            if nothing {
                listening = None;
            } else if !is_asked {
                match self.begin(&asked).await {
                    // Only now: what was listened to so far is not missed in between.
                    Ok(begun) => {
                        selection.taken(&asked);
                        listening = Some(begun);
                    }
                    // What was listened to so far goes on.
                    Err(_) if self.pipe.has_ended() => return,
                    Err(_) if selection.refused(&asked) => {}
                    Err(why) => return self.give_up(why),
                }
                continue;
            }
            self.of.acknowledge(now.turn);
            let ended = tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => None,
                    Err(_) => return,
                },
                ended = ended(&mut listening) => Some(ended),
            };
            let Some((began, why)) = ended else {
                now = wanted.borrow_and_update().clone();
                selection.turn(&now.uris);
                continue;
            };
            if self.pipe.has_ended() {
                return;
            }
            if began.elapsed() < SHORT_SUBSCRIPTION && !selection.refused(&asked) {
                return self.give_up(why);
            }
            // Nobody has said what changed since.
            let changed = [News::Tools, News::Resources, News::Prompts].into_iter();
            changed.chain(asked.into_iter().map(News::Updated)).for_each(|news| self.listener.heard(news));
        }
    }

    /// Asks for these; the request goes on when the server has begun, or has said nothing for a while.
    async fn begin(&self, uris: &BTreeSet<String>) -> Result<Listened<'_>, Option<ClientError>> {
        let (began, begun) = (Instant::now(), Arc::new(Notify::new()));
        let manner = Manner { begun: Some(begun.clone()), ..Manner::default() };
        let (offers, wanted) = (self.offers, uris.clone());
        let mut request: Subscription<'_> =
            Box::pin(self.pipe.request(move |id| message::listen(id, &offers, &wanted), manner));
        tokio::select! {
            () = begun.notified() => {}
            () = tokio::time::sleep(TAKING_NOTE) => {}
            ended = &mut request => return Err(ended.err()),
        }
        Ok(Listened { uris: uris.clone(), began, request })
    }

    fn give_up(&self, why: Option<ClientError>) {
        let (server, why) = (&self.server, why.map(|error| error.to_string()));
        tracing::warn!(%server, ?why, "the server does not say when what it offers changes");
    }
}

type Subscription<'p> = BoxFuture<'p, Result<Bytes, ClientError>>;

/// A request to listen that the server has taken.
struct Listened<'p> {
    uris: BTreeSet<String>,
    began: Instant,
    request: Subscription<'p>,
}

/// When the server says no more: since when it did, and why. Never, where it was not asked to.
async fn ended(listening: &mut Option<Listened<'_>>) -> (Instant, Option<ClientError>) {
    let Some(listened) = listening else { return std::future::pending().await };
    let (began, why) = (listened.began, (&mut listened.request).await.err());
    *listening = None;
    (began, why)
}
