//! What a server says without being asked: that what it offers has changed. In a session it may also ask and log there.
//!
//! One stream is kept open for that, where the server offers one: the session era has a GET for it, the stateless era
//! `subscriptions/listen`. A stream that ends is opened again, later each time; what may have been missed in between
//! counts as a change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use plexus_kit::Stage;
use plexus_mcp::http_client::{Events, Media, Reply};
use plexus_proto::api::UpstreamEra;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::message;
use super::super::selection::Selection;
use super::super::subscriptions::TAKING_NOTE;
use super::Shared;
use super::exchange::Waiting;
use super::refusal::Refusal;
use crate::client::{ClientError, News, Offers, Peer};

/// Before a stream that ended is opened again: doubled each time, up to the last, and from the beginning after a stream
/// that lasted.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
const LASTING: Duration = Duration::from_secs(30);
/// For the stream to open before the tools are first listed. Where it takes longer, the list is read once more then.
const OPENING: Duration = Duration::from_millis(500);

/// Starts to listen to a server that has something to say.
pub(super) async fn start(shared: &Arc<Shared>, peer: &Peer) {
    let offers = peer.offers;
    let listens = match peer.era {
        // Where there is a session, some servers ask and log on its stream only.
        UpstreamEra::Session => offers.changes() || offers.subscribe || shared.session().has_id,
        UpstreamEra::Stateless => offers.changes() || offers.subscribe,
    };
    if !listens {
        return;
    }
    let (opened, open) = oneshot::channel();
    let listening = Listening {
        shared: shared.clone(),
        era: peer.era,
        offers,
        events: Events::new(shared.line.limit()),
        opened: Some(opened),
        was_open: false,
    };
    let (end, stopping) = (shared.end.clone(), shared.supervisor.stopping(Stage::Intake));
    let name = format!("upstream {}: listening", shared.server);
    let heeding = shared.clone();
    shared.supervisor.spawn(Stage::Intake, name, async move {
        tokio::select! {
            () = end.cancelled() => {}
            () = stopping.cancelled() => {}
            why = listening.run() => tracing::debug!("no news: {why}"),
        }
        // Nobody need wait for one who no longer listens.
        heeding.subscriptions.acknowledge(u64::MAX);
    });
    if offers.changes() {
        let _ = tokio::time::timeout(OPENING, open).await;
    }
}

struct Listening {
    shared: Arc<Shared>,
    era: UpstreamEra,
    offers: Offers,
    events: Events,
    /// Whoever waits for the first stream to open.
    opened: Option<oneshot::Sender<()>>,
    /// There was a stream once: a server that refuses one now may only have to find itself again.
    was_open: bool,
}

/// How a stream ended.
enum StreamEnd {
    /// It may be opened again.
    Broken,
    /// There is none to be had, says the server.
    Refused(String),
    /// Nothing is wanted of it for now.
    Satisfied,
}

impl Listening {
    /// Listens until the server says that it has nothing to say; returns why.
    async fn run(mut self) -> String {
        let mut pause = PAUSE;
        loop {
            let begun = Instant::now();
            let ended = match self.era {
                UpstreamEra::Session => self.get().await,
                UpstreamEra::Stateless => self.subscribe().await,
            };
            match ended {
                StreamEnd::Refused(why) if !self.was_open => return why,
                StreamEnd::Satisfied => continue,
                StreamEnd::Refused(_) | StreamEnd::Broken => {}
            }
            if begun.elapsed() >= LASTING {
                pause = PAUSE;
            }
            tokio::time::sleep(self.events.pause(pause, PAUSE..=MAX_PAUSE)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn get(&mut self) -> StreamEnd {
        let shared = self.shared.clone();
        let session = shared.session();
        let headers = session.stream(self.events.last_id());
        let nothing = Bytes::new();
        let get = async { Ok(shared.line.send(&session.place, &Method::GET, &headers, &nothing).await?) };
        // A server may hold back the head of a stream until there is something to say on it, so this is not hurried.
        let reply: Result<Reply, Refusal> = get.await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(_) => return StreamEnd::Broken,
        };
        match reply.status() {
            // Where there never was a stream, the address may have no GET.
            StatusCode::NOT_FOUND if session.has_id && self.was_open => {
                // Its ids go with it.
                self.events = Events::new(shared.line.limit());
                let _ = shared.renew(&session).await;
                StreamEnd::Broken
            }
            status if status.is_success() && reply.media() == Media::Events => {
                let resumed = self.events.last_id().is_some();
                self.open(resumed);
                self.read(reply).await;
                if !Arc::ptr_eq(&shared.session(), &session) {
                    self.events = Events::new(shared.line.limit());
                }
                StreamEnd::Broken
            }
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => StreamEnd::Broken,
            status => StreamEnd::Refused(format!("the server offers no stream ({status})")),
        }
    }

    async fn subscribe(&mut self) -> StreamEnd {
        let mut wanted = self.shared.subscriptions.wanted();
        let mut now = wanted.borrow_and_update().clone();
        let mut selection = Selection::new(self.offers.changes());
        let mut listening: Option<Listened> = None;
        loop {
            let asked = selection.next(&now.uris);
            if asked.is_empty() && !self.offers.changes() {
                self.shared.subscriptions.acknowledge(now.turn);
                drop(listening);
                // The sender lives as long as this does. What the server refused it may take later.
                let patience = if now.uris.is_empty() { Duration::MAX } else { MAX_PAUSE };
                let _ = tokio::time::timeout(patience, wanted.changed()).await;
                return StreamEnd::Satisfied;
            }
            if listening.as_ref().is_none_or(|listened| listened.uris != asked) {
                match self.begin(&asked, &mut listening).await {
                    Ok(stream) => {
                        if listening.is_none() {
                            // The first event has said what will be said.
                            self.open(false);
                        }
                        selection.taken(&asked);
                        listening = Some(Listened { uris: asked, stream });
                    }
                    // One that cannot be reached has not refused anything.
                    Err(StreamEnd::Broken) if listening.is_none() && !self.offers.changes() => {
                        return StreamEnd::Broken;
                    }
                    // What was listened to so far goes on.
                    Err(_) if selection.refused(&asked) => {}
                    Err(ended) => return ended,
                }
                continue;
            }
            self.shared.subscriptions.acknowledge(now.turn);
            tokio::select! {
                message = next(&mut listening) => match message {
                    Some(message) => drop(self.shared.hear(&message, None, false)),
                    None => return StreamEnd::Broken,
                },
                _ = wanted.changed() => {
                    now = wanted.borrow_and_update().clone();
                    selection.turn(&now.uris);
                }
            }
        }
    }

    /// Asks for these. What was listened to so far goes on until the server has begun anew.
    async fn begin(
        &self,
        uris: &BTreeSet<String>,
        listening: &mut Option<Listened>,
    ) -> Result<Stream, StreamEnd> {
        let mut opening = std::pin::pin!(listen(&self.shared, self.offers, uris));
        loop {
            tokio::select! {
                opened = &mut opening => return opened,
                message = next(listening) => match message {
                    Some(message) => drop(self.shared.hear(&message, None, false)),
                    None => *listening = None,
                },
            }
        }
    }

    /// The stream is there. The first time somebody waits for it, or has stopped doing so; later it was gone for a while.
    fn open(&mut self, nothing_missed: bool) {
        self.was_open = true;
        let first_in_time = self.opened.take().map(|opened| opened.send(()).is_ok());
        if !nothing_missed && first_in_time != Some(true) {
            self.missed();
        }
    }

    /// What may have been said while nobody listened.
    fn missed(&self) {
        let changes = [
            (self.offers.tools_change, News::Tools),
            (self.offers.prompts_change, News::Prompts),
            (self.offers.resources_change, News::Resources),
        ];
        let changed = changes.into_iter().filter(|(announced, _)| *announced).map(|(_, news)| news);
        let updated = self.shared.subscriptions.watched().into_iter().map(News::Updated);
        changed.chain(updated).for_each(|news| self.shared.listener.heard(news));
    }

    /// Reads a stream to its end.
    async fn read(&mut self, mut reply: Reply) {
        self.events.restart();
        loop {
            match self.events.next() {
                Ok(Some(event)) if !event.is_message() => {}
                Ok(Some(event)) => drop(self.shared.hear(&event.data, None, false)),
                Ok(None) => match reply.piece().await {
                    Ok(Some(piece)) => self.events.push(&piece),
                    Ok(None) | Err(_) => return,
                },
                Err(_) => {
                    tracing::debug!(server = %self.shared.server, "an event is longer than is taken");
                    return;
                }
            }
        }
    }
}

/// A stream of what the stateless era was asked to say.
struct Stream {
    reply: Reply,
    events: Events,
}

impl Stream {
    /// The next message; none at the end. Nothing is lost when this is dropped half-way.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.events.next().ok()? {
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

/// A stream, and the resources that it was asked for.
struct Listened {
    uris: BTreeSet<String>,
    stream: Stream,
}

/// The next message of a stream, none at its end; never, where there is no stream.
async fn next(listening: &mut Option<Listened>) -> Option<Bytes> {
    match listening {
        Some(listened) => listened.stream.next().await,
        None => std::future::pending().await,
    }
}

/// Asks for what is wanted; the stream, when the server has said that it has begun.
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
    let mut stream = Stream { reply, events: Events::new(shared.line.limit()) };
    match tokio::time::timeout(TAKING_NOTE, stream.next()).await {
        Ok(Some(first)) => {
            let waiting = Waiting { id, progress: None, bridge: None };
            if let Some(Err(error @ ClientError::Rpc { .. })) = shared.hear(&first, Some(&waiting), false) {
                return Err(StreamEnd::Refused(error.to_string()));
            }
        }
        Ok(None) => return Err(StreamEnd::Broken),
        // It may begin without a word.
        Err(_) => {}
    }
    Ok(stream)
}
