//! Listens for notifications of a server. In a session the server may also ask questions and log on this
//! stream.
//!
//! One stream is kept open for that if the server offers one: a GET in the session era,
//! `subscriptions/listen` in the stateless era. A stream that ends is opened again with increasing pauses;
//! everything that may have changed in between counts as changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use plexus_kit::Stage;
use plexus_mcp::http_client::{Media, Reply, SseParser};
use plexus_proto::api::UpstreamEra;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::message;
use super::super::selection::Selection;
use super::super::subscriptions::ACK_TIMEOUT;
use super::Shared;
use super::exchange::WaitingCaller;
use super::refusal::Refusal;
use crate::client::{ClientError, Offers, Peer, ServerChange};

/// Pause before a stream is opened again: doubles each time up to the maximum, and is reset by a stream that
/// lasted.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// How long to wait for the stream before the tools are first listed. If it opens later, the list is read
/// once more.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

/// Starts listening if the server has notifications to send.
pub(super) async fn start(shared: &Arc<Shared>, peer: &Peer) {
    let offers = peer.offers;
    let listens = match peer.era {
        // Some servers with sessions ask and log only on this stream.
        UpstreamEra::Session => offers.changes() || offers.subscribe || shared.session().has_id,
        UpstreamEra::Stateless => offers.changes() || offers.subscribe,
    };
    if !listens {
        return;
    }
    let (opened, open) = oneshot::channel();
    let listening = ListeningTask {
        shared: shared.clone(),
        era: peer.era,
        offers,
        events: SseParser::new(shared.http.limit()),
        opened: Some(opened),
        was_open: false,
    };
    let (end, stopping) = (shared.end.clone(), shared.supervisor.stopping(Stage::Intake));
    let name = format!("upstream {}: listening", shared.server);
    let acknowledging = shared.clone();
    shared.supervisor.spawn(Stage::Intake, name, async move {
        tokio::select! {
            () = end.cancelled() => {}
            () = stopping.cancelled() => {}
            why = listening.run() => tracing::debug!("stopped listening: {why}"),
        }
        // Without a listener, waiting for acknowledgements is pointless.
        acknowledging.subscriptions.acknowledge(u64::MAX);
    });
    if offers.changes() {
        let _ = tokio::time::timeout(OPEN_TIMEOUT, open).await;
    }
}

struct ListeningTask {
    shared: Arc<Shared>,
    era: UpstreamEra,
    offers: Offers,
    events: SseParser,
    /// Notifies the task that waits for the first stream to open.
    opened: Option<oneshot::Sender<()>>,
    /// A stream was open before, so a refusal now may be temporary.
    was_open: bool,
}

/// How a stream ended.
enum StreamEnd {
    /// It may be opened again.
    Broken,
    /// The server offers no stream.
    Refused(String),
    /// No stream is needed for now.
    Satisfied,
}

impl ListeningTask {
    /// Listens until the server offers no stream; returns why.
    async fn run(mut self) -> String {
        let mut pause = MIN_PAUSE;
        loop {
            let began = Instant::now();
            let ended = match self.era {
                UpstreamEra::Session => self.get().await,
                UpstreamEra::Stateless => self.subscribe().await,
            };
            match ended {
                StreamEnd::Refused(why) if !self.was_open => return why,
                StreamEnd::Satisfied => continue,
                StreamEnd::Refused(_) | StreamEnd::Broken => {}
            }
            if began.elapsed() >= STABLE_AFTER {
                pause = MIN_PAUSE;
            }
            tokio::time::sleep(self.events.pause(pause, MIN_PAUSE..=MAX_PAUSE)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn get(&mut self) -> StreamEnd {
        let shared = self.shared.clone();
        let session = shared.session();
        let headers = session.stream(self.events.last_id());
        let nothing = Bytes::new();
        let get = async { Ok(shared.http.send(&session.endpoint, &Method::GET, &headers, &nothing).await?) };
        // A server may delay the head of a stream until it has something to send, so this has no time limit.
        let reply: Result<Reply, Refusal> = get.await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(_) => return StreamEnd::Broken,
        };
        match reply.status() {
            // Without an earlier stream, 404 may mean that the URL supports no GET.
            StatusCode::NOT_FOUND if session.has_id && self.was_open => {
                // The ids of events belong to the lost session.
                self.events = SseParser::new(shared.http.limit());
                let _ = shared.renew(&session).await;
                StreamEnd::Broken
            }
            status if status.is_success() && reply.media() == Media::Events => {
                let resumed = self.events.last_id().is_some();
                self.open(resumed);
                self.read(reply).await;
                if !Arc::ptr_eq(&shared.session(), &session) {
                    self.events = SseParser::new(shared.http.limit());
                }
                StreamEnd::Broken
            }
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => StreamEnd::Broken,
            status => StreamEnd::Refused(format!("the server offers no stream ({status})")),
        }
    }

    async fn subscribe(&mut self) -> StreamEnd {
        let mut desired = self.shared.subscriptions.desired();
        let mut now = desired.borrow_and_update().clone();
        let mut selection = Selection::new(self.offers.changes());
        let mut listening: Option<OpenSubscription> = None;
        loop {
            let requested = selection.next(&now.uris);
            if requested.is_empty() && !self.offers.changes() {
                self.shared.subscriptions.acknowledge(now.turn);
                drop(listening);
                // The sender lives as long as `self`. The server may accept later what it refused now.
                let patience = if now.uris.is_empty() { Duration::MAX } else { MAX_PAUSE };
                let _ = tokio::time::timeout(patience, desired.changed()).await;
                return StreamEnd::Satisfied;
            }
            if listening.as_ref().is_none_or(|subscription| subscription.uris != requested) {
                match self.begin(&requested, &mut listening).await {
                    Ok(stream) => {
                        if listening.is_none() {
                            // The first event acknowledged the subscription.
                            self.open(false);
                        }
                        selection.accepted(&requested);
                        listening = Some(OpenSubscription { uris: requested, stream });
                    }
                    // An unreachable server has refused nothing.
                    Err(StreamEnd::Broken) if listening.is_none() && !self.offers.changes() => {
                        return StreamEnd::Broken;
                    }
                    // The old subscription continues.
                    Err(_) if selection.refused(&requested) => {}
                    Err(ended) => return ended,
                }
                continue;
            }
            self.shared.subscriptions.acknowledge(now.turn);
            tokio::select! {
                message = next(&mut listening) => match message {
                    Some(message) => drop(self.shared.receive(&message, None, false)),
                    None => return StreamEnd::Broken,
                },
                _ = desired.changed() => {
                    now = desired.borrow_and_update().clone();
                    selection.turn(&now.uris);
                }
            }
        }
    }

    /// Opens a subscription. The old one continues until the server has acknowledged the new one.
    async fn begin(
        &self,
        uris: &BTreeSet<String>,
        listening: &mut Option<OpenSubscription>,
    ) -> Result<Stream, StreamEnd> {
        let mut opening = std::pin::pin!(listen(&self.shared, self.offers, uris));
        loop {
            tokio::select! {
                opened = &mut opening => return opened,
                message = next(listening) => match message {
                    Some(message) => drop(self.shared.receive(&message, None, false)),
                    None => *listening = None,
                },
            }
        }
    }

    /// Handles the opening of a stream: notifies the waiting task the first time, and later assumes that
    /// changes were missed.
    fn open(&mut self, nothing_missed: bool) {
        self.was_open = true;
        let first_in_time = self.opened.take().map(|opened| opened.send(()).is_ok());
        if !nothing_missed && first_in_time != Some(true) {
            self.report_missed_changes();
        }
    }

    /// Reports everything that may have changed while nobody listened.
    fn report_missed_changes(&self) {
        let changes = [
            (self.offers.tools_change, ServerChange::Tools),
            (self.offers.prompts_change, ServerChange::Prompts),
            (self.offers.resources_change, ServerChange::Resources),
        ];
        let changed = changes.into_iter().filter(|(announced, _)| *announced).map(|(_, change)| change);
        let updated = self.shared.subscriptions.watched().into_iter().map(ServerChange::Updated);
        changed.chain(updated).for_each(|change| self.shared.listener.on_change(change));
    }

    /// Reads a stream to its end.
    async fn read(&mut self, mut reply: Reply) {
        self.events.restart();
        loop {
            match self.events.next_event() {
                Ok(Some(event)) if !event.is_message() => {}
                Ok(Some(event)) => drop(self.shared.receive(&event.data, None, false)),
                Ok(None) => match reply.piece().await {
                    Ok(Some(piece)) => self.events.push(&piece),
                    Ok(None) | Err(_) => return,
                },
                Err(_) => {
                    tracing::debug!(server = %self.shared.server, "an event exceeds the size limit");
                    return;
                }
            }
        }
    }
}

/// The stream of a subscription in the stateless era.
struct Stream {
    reply: Reply,
    events: SseParser,
}

impl Stream {
    /// The next message; none at the end. Cancel-safe.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.events.next_event().ok()? {
                Some(event) if event.is_message() => return Some(event.data),
                Some(_) => {}
                None => {
                    let piece = self.reply.piece().await.ok()??;
                    self.events.push(&piece);
                }
            }
        }
    }
}

/// A stream, and the resources it covers.
struct OpenSubscription {
    uris: BTreeSet<String>,
    stream: Stream,
}

/// The next message of a stream, none at its end. Never returns if there is no stream.
async fn next(listening: &mut Option<OpenSubscription>) -> Option<Bytes> {
    match listening {
        Some(subscription) => subscription.stream.next().await,
        None => std::future::pending().await,
    }
}

/// Opens a subscription; returns the stream once the server has acknowledged it.
async fn listen(shared: &Arc<Shared>, offers: Offers, uris: &BTreeSet<String>) -> Result<Stream, StreamEnd> {
    const METHOD: &str = "subscriptions/listen";
    let session = shared.session();
    let headers = session.post(METHOD, None);
    let id = shared.next_id();
    let body = Bytes::from(message::listen(id, &offers, uris));
    let reply = match shared.post(&session, METHOD, &headers, &body).await {
        Ok(reply) if reply.media() == Media::Events => reply,
        Ok(reply) => return Err(StreamEnd::Refused(format!("answered with `{}`", reply.content_type()))),
        Err(Refusal::Status(status, error)) if status.is_client_error() => {
            return Err(StreamEnd::Refused(error.to_string()));
        }
        Err(_) => return Err(StreamEnd::Broken),
    };
    let mut stream = Stream { reply, events: SseParser::new(shared.http.limit()) };
    match tokio::time::timeout(ACK_TIMEOUT, stream.next()).await {
        Ok(Some(first)) => {
            let waiting = WaitingCaller { id, progress: None, bridge: None };
            if let Some(Err(error @ ClientError::Rpc { .. })) = shared.receive(&first, Some(&waiting), false)
            {
                return Err(StreamEnd::Refused(error.to_string()));
            }
        }
        Ok(None) => return Err(StreamEnd::Broken),
        // The server may start without an acknowledgement.
        Err(_) => {}
    }
    Ok(stream)
}
