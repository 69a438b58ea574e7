//! One request of MCP and its answer, in one piece or as a stream of events.
//!
//! A stream that breaks before the answer is taken up where it was left, if its server numbers the events; the request
//! itself is not sent again. Otherwise the answer is lost.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use plexus_kit::Stage;
use plexus_mcp::http_client::{self, Events, Media, Reply};
use plexus_proto::api::UpstreamEra;
use plexus_tools::ProgressSink;
use serde_json::value::RawValue;

use super::super::message::{self, Incoming, RequestId};
use super::super::server_questions::{Owner, QuestionHandling, Reply as Given};
use super::super::stderr::shown;
use super::Shared;
use super::refusal::{self, Refusal};
use super::session::Session;
use crate::client::{Bridge, ClientError};

/// Attempts in a row to go on with a stream that bring nothing new.
const MAX_RESUMES: usize = 3;
/// Before a stream is asked for again, where the server does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// What it says is acknowledged within these.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

/// A request that an answer is waited for.
pub(super) struct Waiting<'a> {
    pub(super) id: RequestId,
    pub(super) progress: Option<&'a ProgressSink>,
    /// None where it is for nobody but the hub.
    pub(super) bridge: Option<&'a Bridge>,
}

impl Shared {
    /// Sends a request and waits for the text of its result, for as long as the server takes.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        headers: &HeaderMap,
        body: &Bytes,
        waiting: &Waiting<'_>,
    ) -> Result<Bytes, Refusal> {
        let reply = self.post(session, method, headers, body).await?;
        Ok(self.result(session, method, reply, waiting).await?)
    }

    /// The same for what has to be answered soon.
    pub(super) async fn ask(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        name: Option<&str>,
        id: RequestId,
        body: &Bytes,
    ) -> Result<Bytes, Refusal> {
        let headers = session.post(method, name);
        let waiting = Waiting { id, progress: None, bridge: None };
        let exchange = self.exchange(session, method, &headers, body, &waiting);
        self.timely(method, exchange).await
    }

    /// Sends what has no answer.
    pub(super) async fn tell(&self, session: &Session, body: Bytes) -> Result<(), ClientError> {
        let headers = session.post("", None);
        let told = async {
            let reply = self.post(session, "a message", &headers, &body).await?;
            // Its body, if there is one, says nothing.
            Ok(reply.whole().await.map(drop)?)
        };
        self.timely("a message", told).await.map_err(Refusal::into_error)
    }

    pub(super) async fn timely<T>(
        &self,
        method: &str,
        answer: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| {
            let (place, patience) = (http_client::shown(&self.line.home().url), self.patience.as_secs_f32());
            let message = format!("{place} did not answer {method} within {patience} s");
            Err(Refusal::Failed(ClientError::Lost(message)))
        })
    }

    /// The head of an answer that is a success.
    pub(super) async fn post(
        &self,
        session: &Session,
        method: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, Refusal> {
        let reply = self.line.send(&session.place, &Method::POST, headers, body).await?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        let read = refusal::read(&self.line, reply, method, session.has_id);
        Err(Box::pin(self.timely(method, async { Ok(read.await) })).await.unwrap_or_else(|late| late))
    }

    /// The text of the result that an answer brings.
    pub(super) async fn result(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &str,
        reply: Reply,
        waiting: &Waiting<'_>,
    ) -> Result<Bytes, ClientError> {
        let place = http_client::shown(&reply.place().url);
        match reply.media() {
            Media::Json => {
                let body = reply.whole().await?;
                self.hear_in(session, &body, Some(waiting), true).unwrap_or_else(|| {
                    Err(ClientError::Protocol(format!(
                        "the answer of {place} to {method} is to something else"
                    )))
                })
            }
            Media::Events => Box::pin(self.follow(session, reply, waiting)).await,
            Media::Other if matches!(reply.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                Err(ClientError::Protocol(format!("{place} took {method} and did not answer it")))
            }
            Media::Other => {
                let kind = shown(reply.content_type().as_bytes());
                Err(ClientError::Protocol(format!(
                    "{place} answers {method} with the content type `{kind}`, which is not MCP; check the `url` in \
                     the server's file"
                )))
            }
        }
    }

    /// Reads a stream until the answer is there.
    async fn follow(
        self: &Arc<Self>,
        session: &Arc<Session>,
        reply: Reply,
        waiting: &Waiting<'_>,
    ) -> Result<Bytes, ClientError> {
        let mut events = Events::new(self.line.limit());
        let mut reply = Some(reply);
        let mut fruitless = 0;
        loop {
            let mut broken = "it ended without the answer".to_owned();
            if let Some(mut stream) = reply.take() {
                loop {
                    match events.next() {
                        Ok(Some(event)) if !event.is_message() => {}
                        Ok(Some(event)) => {
                            fruitless = 0;
                            if let Some(answer) = self.hear_in(session, &event.data, Some(waiting), false) {
                                stream.leave();
                                return answer;
                            }
                        }
                        Ok(None) => match stream.piece().await {
                            Ok(Some(piece)) => events.push(&piece),
                            Ok(None) => break,
                            Err(error) => {
                                broken = error.to_string();
                                break;
                            }
                        },
                        Err(_) => return Err(stream.too_long().into()),
                    }
                }
            }
            let lost = || {
                let place = http_client::shown(&session.place.url);
                ClientError::Lost(format!("the stream of {place} was lost before the answer came: {broken}"))
            };
            if session.era == UpstreamEra::Stateless || fruitless == MAX_RESUMES {
                return Err(lost());
            }
            let Some(last) = events.last_id().map(str::to_owned) else { return Err(lost()) };
            fruitless += 1;
            tokio::time::sleep(events.pause(PAUSE, PAUSES)).await;
            events.restart();
            let headers = session.stream(Some(&last));
            match self.line.send(&session.place, &Method::GET, &headers, &Bytes::new()).await {
                Ok(resumed) if resumed.status().is_success() && resumed.media() == Media::Events => {
                    reply = Some(resumed);
                }
                // Whoever refuses once does so again.
                Ok(_) => return Err(lost()),
                Err(error) => {
                    tracing::debug!(server = %self.server, %error, "a stream cannot be taken up yet")
                }
            }
        }
    }

    /// Takes in what a server sent in one piece, in the session that there is.
    pub(super) fn hear(
        self: &Arc<Self>,
        message: &Bytes,
        waiting: Option<&Waiting<'_>>,
        alone: bool,
    ) -> Option<Result<Bytes, ClientError>> {
        self.hear_in(&self.session(), message, waiting, alone)
    }

    /// Takes in what a server sent in one piece; the answer that is waited for, if it is in there. `alone`: nothing
    /// else can come, so that an error without an id is about the request.
    pub(super) fn hear_in(
        self: &Arc<Self>,
        session: &Arc<Session>,
        message: &Bytes,
        waiting: Option<&Waiting<'_>>,
        alone: bool,
    ) -> Option<Result<Bytes, ClientError>> {
        let Some(messages) = Incoming::all(message) else {
            let text = shown(message);
            return Some(Err(ClientError::Protocol(format!(
                "the server sent what is no message of MCP: {text}"
            ))));
        };
        let mut answer = None;
        messages.for_each(|incoming| match incoming {
            Incoming::Response { id, outcome } => match waiting {
                Some(waiting) if id == Some(waiting.id) || (alone && id.is_none() && outcome.is_err()) => {
                    answer = Some(outcome.map(|result| message.slice_ref(result.get().as_bytes())));
                }
                _ => tracing::debug!(server = %self.server, ?id, "dropped: an answer to something else"),
            },
            Incoming::Request { id, method, params } => {
                let owner = || self.meant(waiting, |bridge| bridge.answerer.is_some());
                match self.asked.take((id, &method, params), owner, &self.listener) {
                    QuestionHandling::Now(message) => {
                        self.tell_soon("answer the server", session.clone(), message, &self.answers);
                    }
                    QuestionHandling::Later(answer) => self.answer_later(session.clone(), answer),
                    QuestionHandling::Dropped => {}
                }
            }
            Incoming::Notification { method, params } => match &*method {
                "notifications/progress" => {
                    let sink = waiting.and_then(|waiting| Some((waiting.id, waiting.progress?)));
                    if let (Some((id, sink)), Some((token, progress))) = (sink, message::progress(params))
                        && id == token
                    {
                        sink(progress);
                    }
                }
                "notifications/message" => self.log(waiting, params),
                "notifications/cancelled" => {
                    if let Some(id) = message::cancelled_request(params) {
                        self.asked.cancel(id);
                    }
                }
                other => match message::news(other, params) {
                    Some(news) => self.listener.heard(news),
                    None => {
                        tracing::trace!(server = %self.server, method = %shown(other.as_bytes()), "dropped")
                    }
                },
            },
        });
        answer
    }

    /// Whom a message is for: on the stream of a request it is part of that.
    fn meant(&self, waiting: Option<&Waiting<'_>>, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        match waiting {
            Some(Waiting { bridge: Some(bridge), .. }) => Owner::One((*bridge).clone()),
            Some(_) => Owner::Nobody,
            None => self.owner(can_use),
        }
    }

    /// Passes a line of the server's log on, to whoever wants to read it.
    fn log(&self, waiting: Option<&Waiting<'_>>, params: Option<&RawValue>) {
        if let Owner::One(Bridge { log: Some(log), .. }) = self.meant(waiting, |bridge| bridge.log.is_some())
            && let Some(line) = message::log_line(params)
        {
            if waiting.is_none() {
                self.logs_aside.store(true, Ordering::Relaxed);
            }
            log.say(line);
        }
    }

    /// Sends an answer when there is one, for as long as the session lasts: in another one the same id is of another
    /// question, which may be somebody else's.
    fn answer_later(self: &Arc<Self>, session: Arc<Session>, answer: BoxFuture<'static, Option<Given>>) {
        let shared = self.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: a question", self.server), async move {
            let answering = async {
                let Some(mut given) = answer.await else { return };
                if !Arc::ptr_eq(&shared.session(), &session) {
                    tracing::debug!(server = %shared.server, "dropped: an answer to a session that was lost");
                    return;
                }
                let message = Bytes::from(std::mem::take(&mut given.message));
                if let Err(error) = shared.tell(&session, message).await {
                    tracing::debug!(server = %shared.server, %error, "an answer was not taken");
                }
            };
            tokio::select! {
                () = shared.end.cancelled() => {}
                () = answering => {}
            }
        });
    }
}
