//! Requests in flight, and their cancellation when nobody waits for them any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use plexus_kit::Stage;
use plexus_mcp::version::MODERN;
use plexus_proto::api::UpstreamEra;
use plexus_tools::ProgressSink;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::message::{self, RequestId};
use super::super::server_questions::{DepartedCallers, Owner};
use super::Shared;
use super::exchange::WaitingCaller;
use super::refusal::Refusal;
use super::session::Session;
use crate::client::{Bridge, ClientError};

/// Pause after the result of a call with a log sink, for log lines on another stream, whose order relative to
/// the result is undefined.
const LOG_GRACE: Duration = Duration::from_millis(50);

/// A request on behalf of a caller.
#[derive(Clone, Copy)]
pub(super) struct CallerRequest<'a> {
    pub(super) method: &'static str,
    /// The subject of the request, such as the tool.
    pub(super) name: Option<&'a str>,
    /// Arguments that the server may require in headers too.
    pub(super) arguments: Option<&'a Value>,
    pub(super) progress: Option<&'a ProgressSink>,
    pub(super) bridge: &'a Bridge,
    pub(super) cancel: &'a CancellationToken,
}

/// Requests in a session, in which the server may address their callers on a different stream.
#[derive(Default)]
pub(super) struct InFlight {
    open: HashMap<RequestId, Bridge>,
    departed: DepartedCallers,
}

/// A call that waits for its answer. If dropped before that, it is cancelled at the server.
struct Unanswered<'a> {
    shared: &'a Arc<Shared>,
    id: RequestId,
    /// The server may know of it and be working on it.
    sent: bool,
    /// The call has ended, so no cancellation is needed.
    ended: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.shared.in_flight();
        if let Some(bridge) = in_flight.open.remove(&self.id)
            && self.sent
        {
            in_flight.departed.leave(self.id, bridge.caller);
        }
        drop(in_flight);
        // During shutdown the runtime is gone, and no task can send the cancellation.
        if self.sent && !self.ended && Handle::try_current().is_ok() {
            self.shared.cancel_at_server(self.id);
        }
    }
}

/// A caller for whom the server of a session works, besides those in [`Unanswered`].
pub(in super::super) struct PresentCaller {
    shared: Arc<Shared>,
    id: RequestId,
    /// The server may continue after this is dropped.
    pub(in super::super) continues: bool,
}

impl Drop for PresentCaller {
    fn drop(&mut self) {
        let mut in_flight = self.shared.in_flight();
        if let Some(bridge) = in_flight.open.remove(&self.id)
            && self.continues
        {
            in_flight.departed.leave(self.id, bridge.caller);
        }
    }
}

impl Shared {
    /// Runs a request for as long as its caller waits; returns the text of its result.
    pub(super) async fn run(
        self: &Arc<Self>,
        caller_request: CallerRequest<'_>,
        build: impl Fn(RequestId) -> Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        if self.end.is_cancelled() {
            return Err(ClientError::Unreachable(format!("the connection to {} was closed", self.server)));
        }
        let id = self.next_id();
        let mut unanswered = Unanswered { shared: self, id, sent: false, ended: false };
        if self.session().has_id {
            self.in_flight().open.insert(id, caller_request.bridge.clone());
        }
        let answered = tokio::select! {
            biased;
            () = caller_request.cancel.cancelled() => return Err(ClientError::Cancelled),
            () = self.end.cancelled() => Err(ClientError::Lost(format!(
                "the connection to {} was closed while the call ran", self.server
            ))),
            result = self.send_and_receive(id, caller_request, build(id), &mut unanswered.sent) => result,
        };
        unanswered.ended = true;
        unanswered.sent &= matches!(answered, Err(ClientError::Lost(_) | ClientError::Protocol(_)));
        if answered.is_ok()
            && caller_request.bridge.log.is_some()
            && self.logs_on_other_stream.load(Ordering::Relaxed)
        {
            tokio::time::sleep(LOG_GRACE).await;
        }
        answered
    }

    async fn send_and_receive(
        self: &Arc<Self>,
        id: RequestId,
        caller_request: CallerRequest<'_>,
        body: Vec<u8>,
        sent: &mut bool,
    ) -> Result<Bytes, ClientError> {
        // The semaphore is never closed.
        let _turn = self.calls.acquire().await;
        *sent = true;
        let session = self.session();
        let body = Bytes::from(body);
        let waiting =
            WaitingCaller { id, progress: caller_request.progress, bridge: Some(caller_request.bridge) };
        let headers = self.headers(&session, &caller_request);
        match self.exchange(&session, caller_request.method, &headers, &body, &waiting).await {
            // The request has begun, and a question was asked during it.
            Err(Refusal::NoSession(error)) if caller_request.bridge.has_asked() => {
                return Err(ClientError::Lost(error.to_string()));
            }
            Err(Refusal::NoSession(_)) => {}
            Err(refusal) => return Err(self.error_of(&session, refusal)),
            Ok(result) => return Ok(result),
        }
        Box::pin(async {
            let session = self.renew(&session).await?;
            let headers = self.headers(&session, &caller_request);
            let again = self.exchange(&session, caller_request.method, &headers, &body, &waiting).await;
            again.map_err(Refusal::into_error)
        })
        .await
    }

    fn headers(&self, session: &Session, caller_request: &CallerRequest<'_>) -> HeaderMap {
        let mut headers = session.post(caller_request.method, caller_request.name);
        if let (UpstreamEra::Stateless, Some(tool), Some(arguments)) =
            (session.era, caller_request.name, caller_request.arguments)
        {
            self.parameters().add(tool, arguments, &mut headers);
        }
        headers
    }

    /// Runs any other request within its time limit; returns the text of its result.
    pub(super) async fn request(
        self: &Arc<Self>,
        method: &'static str,
        name: Option<&str>,
        build: impl Fn(RequestId) -> Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        let session = self.session();
        let id = self.next_id();
        let body = Bytes::from(build(id));
        match self.ask(&session, method, name, id, &body).await {
            Err(Refusal::NoSession(_)) => {}
            other => return other.map_err(Refusal::into_error),
        }
        Box::pin(async {
            let session = self.renew(&session).await?;
            self.ask(&session, method, name, id, &body).await.map_err(Refusal::into_error)
        })
        .await
    }

    /// The caller of a message on a stream that belongs to no request.
    pub(super) fn owner(&self, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        let in_flight = self.in_flight();
        let open = in_flight.open.iter().map(|(id, bridge)| (*id, bridge));
        Owner::among(open, &in_flight.departed, can_use)
    }

    /// Registers a caller that messages of a session may concern, until the returned value is dropped.
    pub(super) fn present(self: &Arc<Self>, bridge: Bridge) -> PresentCaller {
        let id = self.next_id();
        if self.session().has_id {
            self.in_flight().open.insert(id, bridge);
        }
        PresentCaller { shared: self.clone(), id, continues: false }
    }

    /// The error of a failed call. A redirect target that is unreachable is no longer used.
    fn error_of(&self, session: &Arc<Session>, refusal: Refusal) -> ClientError {
        let error = refusal.into_error();
        let moved = !Arc::ptr_eq(&session.endpoint, self.http.home());
        if moved && session.era == UpstreamEra::Stateless && matches!(error, ClientError::Unreachable(_)) {
            self.adopt(Session::stateless(self.http.home().clone(), MODERN));
        }
        error
    }

    /// Cancels a request at the server. In the stateless era closing the connection does that, which has
    /// already happened.
    fn cancel_at_server(self: &Arc<Self>, id: RequestId) {
        if self.session().era == UpstreamEra::Session && !self.end.is_cancelled() {
            let message = message::cancelled(id, "the caller no longer wants the result");
            self.send_detached("cancel a call", self.session(), message, &self.cancels);
        }
    }

    /// Sends a message without an answer in the background. It is dropped if too many such messages are
    /// pending, or if the connection ends.
    pub(super) fn send_detached(
        self: &Arc<Self>,
        purpose: &str,
        session: Arc<Session>,
        message: Vec<u8>,
        turns: &Arc<Semaphore>,
    ) {
        let Ok(turn) = turns.clone().try_acquire_owned() else {
            tracing::debug!(server = %self.server, "dropped a message to {purpose}: too many are unsent");
            return;
        };
        let shared = self.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: {purpose}", self.server), async move {
            let _turn = turn;
            let sent_message = tokio::select! {
                () = shared.end.cancelled() => return,
                sent_message = shared.send_message(&session, Bytes::from(message)) => sent_message,
            };
            if let Err(error) = sent_message {
                tracing::debug!(server = %shared.server, %error, "the server did not accept a message");
            }
        });
    }
}
