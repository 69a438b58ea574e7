//! One MCP request and its answer, in one piece or as an event stream.
//!
//! A stream that breaks before the answer is resumed if its server numbers the events; the request itself is
//! not sent again. Otherwise the answer is lost.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use plexus_kit::Stage;
use plexus_mcp::http_client::{self, Media, Reply, SseParser};
use plexus_proto::api::UpstreamEra;
use plexus_tools::ProgressSink;
use serde_json::value::RawValue;

use super::super::message::{self, Incoming, RequestId};
use super::super::server_questions::{Owner, QuestionHandling, Reply as QuestionReply};
use super::super::stderr::shown;
use super::Shared;
use super::refusal::{self, Refusal};
use super::session::Session;
use crate::client::{Bridge, ClientError};

/// Consecutive attempts to resume a stream without a new event.
const MAX_RESUMES: usize = 3;
/// Pause before a stream is resumed, if the server does not specify one.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// Bounds of the pause that the server specifies.
const RESUME_PAUSE_BOUNDS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);

/// A request that waits for its answer.
pub(super) struct WaitingCaller<'a> {
    pub(super) id: RequestId,
    pub(super) progress: Option<&'a ProgressSink>,
    /// None for the hub's own requests.
    pub(super) bridge: Option<&'a Bridge>,
}

impl Shared {
    /// Sends a request and waits for the text of its result, without a time limit.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        headers: &HeaderMap,
        body: &Bytes,
        waiting: &WaitingCaller<'_>,
    ) -> Result<Bytes, Refusal> {
        let reply = self.post(session, method, headers, body).await?;
        Ok(self.result(session, method, reply, waiting).await?)
    }

    /// Like [`Self::exchange`], with a time limit.
    pub(super) async fn ask(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        name: Option<&str>,
        id: RequestId,
        body: &Bytes,
    ) -> Result<Bytes, Refusal> {
        let headers = session.post(method, name);
        let waiting = WaitingCaller { id, progress: None, bridge: None };
        let exchange = self.exchange(session, method, &headers, body, &waiting);
        self.timely(method, exchange).await
    }

    /// Sends a message that has no answer.
    pub(super) async fn send_message(&self, session: &Session, body: Bytes) -> Result<(), ClientError> {
        let headers = session.post("", None);
        let sent = async {
            let reply = self.post(session, "a message", &headers, &body).await?;
            // A body, if there is one, has no meaning.
            Ok(reply.bytes().await.map(drop)?)
        };
        self.timely("a message", sent).await.map_err(Refusal::into_error)
    }

    pub(super) async fn timely<T>(
        &self,
        method: &str,
        answer: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        tokio::time::timeout(self.patience, answer).await.unwrap_or_else(|_| {
            let (origin, patience) =
                (http_client::origin_of(&self.http.home().url), self.patience.as_secs_f32());
            let message = format!("{origin} did not answer {method} within {patience} s");
            Err(Refusal::Failed(ClientError::Lost(message)))
        })
    }

    /// Sends a request; returns the head of a successful answer.
    pub(super) async fn post(
        &self,
        session: &Session,
        method: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Reply, Refusal> {
        let reply = self.http.send(&session.endpoint, &Method::POST, headers, body).await?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        let read = refusal::read(&self.http, reply, method, session.has_id);
        Err(Box::pin(self.timely(method, async { Ok(read.await) })).await.unwrap_or_else(|late| late))
    }

    /// Reads the text of the result from an answer.
    pub(super) async fn result(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &str,
        reply: Reply,
        waiting: &WaitingCaller<'_>,
    ) -> Result<Bytes, ClientError> {
        let origin = http_client::origin_of(&reply.endpoint().url);
        match reply.media() {
            Media::Json => {
                let body = reply.bytes().await?;
                self.receive_in(session, &body, Some(waiting), true).unwrap_or_else(|| {
                    Err(ClientError::Protocol(format!(
                        "{origin} answered {method} with a response to a different request"
                    )))
                })
            }
            Media::Events => Box::pin(self.follow(session, reply, waiting)).await,
            Media::Other if matches!(reply.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                Err(ClientError::Protocol(format!("{origin} accepted {method} but did not answer it")))
            }
            Media::Other => {
                let kind = shown(reply.content_type().as_bytes());
                Err(ClientError::Protocol(format!(
                    "{origin} answers {method} with the content type `{kind}`, which is not MCP; check the `url` in \
                     the server's file"
                )))
            }
        }
    }

    /// Reads an event stream until the answer arrives.
    async fn follow(
        self: &Arc<Self>,
        session: &Arc<Session>,
        reply: Reply,
        waiting: &WaitingCaller<'_>,
    ) -> Result<Bytes, ClientError> {
        let mut events = SseParser::new(self.http.limit());
        let mut reply = Some(reply);
        let mut fruitless = 0;
        loop {
            let mut broken = "it ended without the answer".to_owned();
            if let Some(mut stream) = reply.take() {
                loop {
                    match events.next_event() {
                        Ok(Some(event)) if !event.is_message() => {}
                        Ok(Some(event)) => {
                            fruitless = 0;
                            if let Some(answer) = self.receive_in(session, &event.data, Some(waiting), false)
                            {
                                stream.release();
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
                let origin = http_client::origin_of(&session.endpoint.url);
                ClientError::Lost(format!(
                    "the stream of {origin} was lost before the answer arrived: {broken}"
                ))
            };
            if session.era == UpstreamEra::Stateless || fruitless == MAX_RESUMES {
                return Err(lost());
            }
            let Some(last) = events.last_id().map(str::to_owned) else { return Err(lost()) };
            fruitless += 1;
            tokio::time::sleep(events.pause(RESUME_PAUSE, RESUME_PAUSE_BOUNDS)).await;
            events.restart();
            let headers = session.stream(Some(&last));
            match self.http.send(&session.endpoint, &Method::GET, &headers, &Bytes::new()).await {
                Ok(resumed) if resumed.status().is_success() && resumed.media() == Media::Events => {
                    reply = Some(resumed);
                }
                // A server that refuses to resume once will do so again.
                Ok(_) => return Err(lost()),
                Err(error) => {
                    tracing::debug!(server = %self.server, %error, "cannot resume a stream yet")
                }
            }
        }
    }

    /// Handles received messages in the current session.
    pub(super) fn receive(
        self: &Arc<Self>,
        message: &Bytes,
        waiting: Option<&WaitingCaller<'_>>,
        is_whole_body: bool,
    ) -> Option<Result<Bytes, ClientError>> {
        self.receive_in(&self.session(), message, waiting, is_whole_body)
    }

    /// Handles received messages; returns the awaited answer if it is among them. `is_whole_body`: nothing else can
    /// follow, so an error without an id belongs to the request.
    pub(super) fn receive_in(
        self: &Arc<Self>,
        session: &Arc<Session>,
        message: &Bytes,
        waiting: Option<&WaitingCaller<'_>>,
        is_whole_body: bool,
    ) -> Option<Result<Bytes, ClientError>> {
        let Some(messages) = Incoming::all(message) else {
            let text = shown(message);
            return Some(Err(ClientError::Protocol(format!(
                "the server sent something that is not an MCP message: {text}"
            ))));
        };
        let mut answer = None;
        messages.for_each(|incoming| match incoming {
            Incoming::Response { id, outcome } => match waiting {
                Some(waiting)
                    if id == Some(waiting.id) || (is_whole_body && id.is_none() && outcome.is_err()) =>
                {
                    answer = Some(outcome.map(|result| message.slice_ref(result.get().as_bytes())));
                }
                _ => tracing::debug!(server = %self.server, ?id, "dropped an answer to a different request"),
            },
            Incoming::Request { id, method, params } => {
                let owner = || self.owner_of(waiting, |bridge| bridge.answerer.is_some());
                match self.questions.take((id, &method, params), owner, &self.listener) {
                    QuestionHandling::Now(message) => {
                        self.send_detached("answer the server", session.clone(), message, &self.answers);
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
                        self.questions.cancel(id);
                    }
                }
                other => match message::server_change(other, params) {
                    Some(change) => self.listener.on_change(change),
                    None => {
                        tracing::trace!(server = %self.server, method = %shown(other.as_bytes()), "dropped")
                    }
                },
            },
        });
        answer
    }

    /// The caller that a message concerns: on the stream of a request it belongs to that request.
    fn owner_of(&self, waiting: Option<&WaitingCaller<'_>>, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        match waiting {
            Some(WaitingCaller { bridge: Some(bridge), .. }) => Owner::One((*bridge).clone()),
            Some(_) => Owner::Nobody,
            None => self.owner(can_use),
        }
    }

    /// Passes a log line on to the caller that wants it.
    fn log(&self, waiting: Option<&WaitingCaller<'_>>, params: Option<&RawValue>) {
        if let Owner::One(Bridge { log: Some(log), .. }) =
            self.owner_of(waiting, |bridge| bridge.log.is_some())
            && let Some(line) = message::log_line(params)
        {
            if waiting.is_none() {
                self.logs_on_other_stream.store(true, Ordering::Relaxed);
            }
            log.say(line);
        }
    }

    /// Sends an answer to the server when it is available, if the session still exists: in another session
    /// the same id may denote someone else's question.
    fn answer_later(
        self: &Arc<Self>,
        session: Arc<Session>,
        answer: BoxFuture<'static, Option<QuestionReply>>,
    ) {
        let shared = self.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: a question", self.server), async move {
            let answering = async {
                let Some(mut given) = answer.await else { return };
                if !Arc::ptr_eq(&shared.session(), &session) {
                    tracing::debug!(server = %shared.server, "dropped an answer to a lost session");
                    return;
                }
                let message = Bytes::from(std::mem::take(&mut given.message));
                if let Err(error) = shared.send_message(&session, message).await {
                    tracing::debug!(server = %shared.server, %error, "the server did not accept an answer");
                }
            };
            tokio::select! {
                () = shared.end.cancelled() => {}
                () = answering => {}
            }
        });
    }
}
