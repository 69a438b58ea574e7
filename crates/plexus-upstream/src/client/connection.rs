//! MCP over a pipe: the handshakes of both eras, and the methods.

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

use super::answer::{self, DiscoverFailure};
use super::following::LogVerbosity;
use super::message::{self, RequestMeta};
use super::pipe::{BorrowedPipe, Pipe, PresentCaller, RequestOptions};
use super::process::Process;
use super::selection::Selection;
use super::subscriptions::{ACK_TIMEOUT, Subscriptions};
use super::{
    Bridge, CallResult, ClientError, Connect, Definitions, ListKind, Offers, Outgoing, Peer, Request,
    RequestResponse, ServerChange, SharedListener,
};

/// Time limit for `server/discover`. A server of the session era may never answer it, and every caller waits
/// meanwhile. A server that merely starts slowly is not misjudged, see [`discover`].
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// A subscription that ends sooner than this is not renewed.
const SHORT_SUBSCRIPTION: Duration = Duration::from_secs(60);

/// How the handshake with a server begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// With `server/discover`, falling back to the session era.
    Discover,
    /// With `initialize`.
    Initialize,
}

/// A server that has completed the handshake.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    pipe: Pipe,
    peer: Arc<Peer>,
    process: Option<Process>,
    patience: Duration,
    /// Size limit of one message in bytes.
    limit: usize,
    /// Whether the server may answer with a task.
    follows: bool,
    verbosity: Arc<LogVerbosity>,
    subscriptions: Arc<Subscriptions>,
}

impl Connection {
    /// Performs the handshake. It has no time limit of its own; if it fails, the pipe ends.
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
            let listening = SubscriptionLoop {
                server: name.clone(),
                pipe,
                listener,
                offers,
                subscriptions: subscriptions.clone(),
            };
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

    pub(super) async fn list(&self, list_kind: ListKind) -> Result<Definitions, ClientError> {
        let page = async |cursor: Option<String>| {
            let build = |id| message::list(id, self.peer.era, list_kind.method(), cursor.as_deref());
            self.pipe.request(build, RequestOptions::default()).await
        };
        self.timely(list_kind.method(), answer::fetch_list(&self.peer, list_kind, self.limit, page)).await
    }

    pub(super) async fn call(&self, call: Outgoing) -> CallResult {
        let manner = RequestOptions {
            progress: call.progress.clone(),
            cancel: Some(&call.cancel),
            bridge: Some(call.bridge.clone()),
            ..RequestOptions::default()
        };
        let meta = RequestMeta { trace: call.trace.as_ref(), ..self.request_meta(&call.bridge) };
        let result = self.pipe.request(|id| message::call(id, &call, meta), manner).await?;
        answer::parse_call_result(&result)
    }

    pub(super) async fn request(&self, request: Request) -> Result<RequestResponse, ClientError> {
        let name = request.method.name();
        let meta = RequestMeta { trace: request.trace.as_ref(), ..self.request_meta(&request.bridge) };
        let manner = RequestOptions {
            cancel: request.cancel.as_ref(),
            bridge: request.cancel.is_some().then(|| request.bridge.clone()),
            ..RequestOptions::default()
        };
        let requested = self.pipe.request(|id| message::request(id, &request, meta), manner);
        let result = match request.cancel {
            Some(_) => requested.await?,
            None => self.timely(name, requested).await?,
        };
        answer::parse_response(result, name)
    }

    fn request_meta(&self, bridge: &Bridge) -> RequestMeta<'static> {
        RequestMeta::of(self.peer.era, bridge, self.follows)
    }

    pub(super) fn verbosity(&self) -> &LogVerbosity {
        &self.verbosity
    }

    pub(super) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    pub(super) fn present(&self, bridge: Bridge) -> PresentCaller {
        self.pipe.present(bridge)
    }

    pub(super) async fn ping(&self) -> Result<(), ClientError> {
        if self.peer.era == UpstreamEra::Stateless {
            return Ok(());
        }
        let pong = async { self.pipe.request(message::ping, RequestOptions::default()).await.map(drop) };
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

/// Determines the era of a server. A silent server may be of the session era, or may not read its input yet.
/// Therefore `initialize` follows the probe without cancelling it, and the answer to `initialize` takes
/// precedence; the answer to the probe counts only if `initialize` failed.
async fn discover(pipe: &Pipe, can: Capabilities) -> Result<Peer, ClientError> {
    let mut requested = pin!(pipe.request(message::discover, without_cancel()));
    match tokio::time::timeout(PROBE_TIMEOUT, &mut requested).await {
        Ok(Ok(result)) => match answer::discovered(&result) {
            Ok(peer) => Ok(peer),
            // The answer is unusable, but the server may also support the session era.
            Err(why) => initialize(pipe, can).await.map_err(|_| why),
        },
        Ok(Err(lost @ (ClientError::Lost(_) | ClientError::Unreachable(_) | ClientError::Busy(_)))) => {
            Err(lost)
        }
        Ok(Err(error)) => match answer::classify_discover_failure(error) {
            DiscoverFailure::TryInitialize => initialize(pipe, can).await,
            DiscoverFailure::Refused(error) => Err(error),
        },
        Err(_) => {
            let refused = match initialize(pipe, can).await {
                Ok(peer) => return Ok(peer),
                Err(refused) => refused,
            };
            match tokio::time::timeout(PROBE_TIMEOUT, requested).await {
                Ok(Ok(result)) => answer::discovered(&result),
                _ => Err(refused),
            }
        }
    }
}

async fn initialize(pipe: &Pipe, can: Capabilities) -> Result<Peer, ClientError> {
    let result = pipe.request(|id| message::initialize(id, can), without_cancel()).await?;
    let peer = answer::initialized(&result)?;
    pipe.notify(message::initialized()).await?;
    Ok(peer)
}

/// Options that never cancel: a server may treat an unexpected notification during the handshake as an error.
fn without_cancel() -> RequestOptions<'static> {
    RequestOptions { without_cancellation: true, ..RequestOptions::default() }
}

/// In the stateless era a server only reports changes to clients that subscribed.
struct SubscriptionLoop {
    server: String,
    pipe: BorrowedPipe,
    listener: SharedListener,
    offers: Offers,
    subscriptions: Arc<Subscriptions>,
}

impl SubscriptionLoop {
    async fn run(self) {
        self.listen().await;
        // Without a listener, waiting for acknowledgements is pointless.
        self.subscriptions.acknowledge(u64::MAX);
    }

    /// Keeps a subscription open for as long as the server supports it.
    async fn listen(&self) {
        let mut desired = self.subscriptions.desired();
        let mut now = desired.borrow_and_update().clone();
        let mut selection = Selection::new(self.offers.changes());
        let mut listening: Option<OpenSubscription<'_>> = None;
        loop {
            let requested = selection.next(&now.uris);
            let is_open = listening.as_ref().is_some_and(|subscription| subscription.uris == requested);
            let nothing = requested.is_empty() && !self.offers.changes();
            if nothing {
                listening = None;
            } else if !is_open {
                match self.begin(&requested).await {
                    // The old subscription ends only now, so that no change is missed in between.
                    Ok(opened) => {
                        selection.accepted(&requested);
                        listening = Some(opened);
                    }
                    // The old subscription continues.
                    Err(_) if self.pipe.has_ended() => return,
                    Err(_) if selection.refused(&requested) => {}
                    Err(why) => return self.give_up(why),
                }
                continue;
            }
            self.subscriptions.acknowledge(now.turn);
            let ended = tokio::select! {
                changed = desired.changed() => match changed {
                    Ok(()) => None,
                    Err(_) => return,
                },
                ended = ended(&mut listening) => Some(ended),
            };
            let Some((began, why)) = ended else {
                now = desired.borrow_and_update().clone();
                selection.turn(&now.uris);
                continue;
            };
            if self.pipe.has_ended() {
                return;
            }
            if began.elapsed() < SHORT_SUBSCRIPTION && !selection.refused(&requested) {
                return self.give_up(why);
            }
            // Changes may have been missed in the meantime.
            let changed = [ServerChange::Tools, ServerChange::Resources, ServerChange::Prompts].into_iter();
            changed
                .chain(requested.into_iter().map(ServerChange::Updated))
                .for_each(|change| self.listener.on_change(change));
        }
    }

    /// Opens a subscription; returns when the server has acknowledged it, or after a timeout without an
    /// error.
    async fn begin(&self, uris: &BTreeSet<String>) -> Result<OpenSubscription<'_>, Option<ClientError>> {
        let (began, acknowledged) = (Instant::now(), Arc::new(Notify::new()));
        let manner = RequestOptions { acknowledged: Some(acknowledged.clone()), ..RequestOptions::default() };
        let (offers, desired) = (self.offers, uris.clone());
        let mut request: Subscription<'_> =
            Box::pin(self.pipe.request(move |id| message::listen(id, &offers, &desired), manner));
        tokio::select! {
            () = acknowledged.notified() => {}
            () = tokio::time::sleep(ACK_TIMEOUT) => {}
            ended = &mut request => return Err(ended.err()),
        }
        Ok(OpenSubscription { uris: uris.clone(), began, request })
    }

    fn give_up(&self, why: Option<ClientError>) {
        let (server, why) = (&self.server, why.map(|error| error.to_string()));
        tracing::warn!(%server, ?why, "the server does not report changes of its lists");
    }
}

type Subscription<'p> = BoxFuture<'p, Result<Bytes, ClientError>>;

/// A subscription that the server has accepted.
struct OpenSubscription<'p> {
    uris: BTreeSet<String>,
    began: Instant,
    request: Subscription<'p>,
}

/// Waits until the subscription ends; returns when it began and why it ended. Never returns if there is none.
async fn ended(listening: &mut Option<OpenSubscription<'_>>) -> (Instant, Option<ClientError>) {
    let Some(subscription) = listening else { return std::future::pending().await };
    let (began, why) = (subscription.began, (&mut subscription.request).await.err());
    *listening = None;
    (began, why)
}
