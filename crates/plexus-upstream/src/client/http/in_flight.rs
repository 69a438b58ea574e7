//! Requests that somebody waits for, and what becomes of them when nobody does any more.

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
use super::exchange::Waiting;
use super::refusal::Refusal;
use super::session::Session;
use crate::client::{Bridge, ClientError};

/// After the result of a call that wants to read a log, for lines that come on another stream: two streams have no order.
const LINGER: Duration = Duration::from_millis(50);

/// A request on behalf of somebody.
#[derive(Clone, Copy)]
pub(super) struct CallerRequest<'a> {
    pub(super) method: &'static str,
    /// What it acts on.
    pub(super) name: Option<&'a str>,
    /// Arguments that the server may want to see in headers too.
    pub(super) arguments: Option<&'a Value>,
    pub(super) progress: Option<&'a ProgressSink>,
    pub(super) bridge: &'a Bridge,
    pub(super) cancel: &'a CancellationToken,
}

/// Requests in a session, where the server may speak to their callers on another stream than their own.
#[derive(Default)]
pub(super) struct InFlight {
    open: HashMap<RequestId, Bridge>,
    departed: DepartedCallers,
}

/// A call whose answer is waited for. Dropped before that, the server hears of it.
struct Unanswered<'a> {
    shared: &'a Arc<Shared>,
    id: RequestId,
    /// The server may know of it, and be at work on it.
    sent: bool,
    /// Nobody waits any more.
    over: bool,
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
        // Where tasks end because all of them do, nobody is left to say it.
        if self.sent && !self.over && Handle::try_current().is_ok() {
            self.shared.forget(self.id);
        }
    }
}

/// Somebody whom the server of a session works for, beside those who wait as [`Unanswered`].
pub(in super::super) struct Present {
    shared: Arc<Shared>,
    id: RequestId,
    /// The server may go on with it when this is dropped.
    pub(in super::super) goes_on: bool,
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut in_flight = self.shared.in_flight();
        if let Some(bridge) = in_flight.open.remove(&self.id)
            && self.goes_on
        {
            in_flight.departed.leave(self.id, bridge.caller);
        }
    }
}

impl Shared {
    /// Carries out a request for as long as its caller waits; the text of its result.
    pub(super) async fn run(
        self: &Arc<Self>,
        caller_request: CallerRequest<'_>,
        build: impl Fn(RequestId) -> Vec<u8>,
    ) -> Result<Bytes, ClientError> {
        if self.end.is_cancelled() {
            return Err(ClientError::Unreachable(format!("the connection to {} was closed", self.server)));
        }
        let id = self.next_id();
        let mut unanswered = Unanswered { shared: self, id, sent: false, over: false };
        if self.session().has_id {
            self.in_flight().open.insert(id, caller_request.bridge.clone());
        }
        let answered = tokio::select! {
            biased;
            () = caller_request.cancel.cancelled() => return Err(ClientError::Cancelled),
            () = self.end.cancelled() => Err(ClientError::Lost(format!(
                "the connection to {} was closed while the call ran", self.server
            ))),
            result = self.carry(id, caller_request, build(id), &mut unanswered.sent) => result,
        };
        unanswered.over = true;
        unanswered.sent &= matches!(answered, Err(ClientError::Lost(_) | ClientError::Protocol(_)));
        if answered.is_ok() && caller_request.bridge.log.is_some() && self.logs_aside.load(Ordering::Relaxed)
        {
            tokio::time::sleep(LINGER).await;
        }
        answered
    }

    async fn carry(
        self: &Arc<Self>,
        id: RequestId,
        caller_request: CallerRequest<'_>,
        body: Vec<u8>,
        sent: &mut bool,
    ) -> Result<Bytes, ClientError> {
        // Never closed.
        let _turn = self.calls.acquire().await;
        *sent = true;
        let session = self.session();
        let body = Bytes::from(body);
        let waiting = Waiting { id, progress: caller_request.progress, bridge: Some(caller_request.bridge) };
        let headers = self.headers(&session, &caller_request);
        match self.exchange(&session, caller_request.method, &headers, &body, &waiting).await {
            // It has begun its work, and somebody was asked in the course of it.
            Err(Refusal::NoSession(error)) if caller_request.bridge.has_asked() => {
                return Err(ClientError::Lost(error.to_string()));
            }
            Err(Refusal::NoSession(_)) => {}
            Err(refusal) => return Err(self.give_up(&session, refusal)),
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

    /// The text of the result of any other request, within the time that such a request may take.
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

    /// Whom the server means on a stream that is of no request.
    pub(super) fn owner(&self, can_use: impl Fn(&Bridge) -> bool) -> Owner {
        let in_flight = self.in_flight();
        let open = in_flight.open.iter().map(|(id, bridge)| (*id, bridge));
        Owner::among(open, &in_flight.departed, can_use)
    }

    /// Somebody may be meant by what the server of a session says for as long as this is kept.
    pub(super) fn present(self: &Arc<Self>, bridge: Bridge) -> Present {
        let id = self.next_id();
        if self.session().has_id {
            self.in_flight().open.insert(id, bridge);
        }
        Present { shared: self.clone(), id, goes_on: false }
    }

    /// Why a call has no result. A place that redirects led to and that is gone is no longer gone to.
    fn give_up(&self, session: &Arc<Session>, refusal: Refusal) -> ClientError {
        let error = refusal.into_error();
        let moved = !Arc::ptr_eq(&session.place, self.line.home());
        if moved && session.era == UpstreamEra::Stateless && matches!(error, ClientError::Unreachable(_)) {
            self.adopt(Session::stateless(self.line.home().clone(), MODERN));
        }
        error
    }

    /// Tells the server that the answer to a request is no longer wanted. The stateless era says so by closing the
    /// connection, which has happened.
    fn forget(self: &Arc<Self>, id: RequestId) {
        if self.session().era == UpstreamEra::Session && !self.end.is_cancelled() {
            let message = message::cancelled(id, "the caller no longer wants the result");
            self.tell_soon("cancel a call", self.session(), message, &self.cancels);
        }
    }

    /// Sends what has no answer, without anybody waiting for it: once it is its turn, which it does not wait for, and
    /// for as long as there is a connection.
    pub(super) fn tell_soon(
        self: &Arc<Self>,
        what: &str,
        session: Arc<Session>,
        message: Vec<u8>,
        turns: &Arc<Semaphore>,
    ) {
        let Ok(turn) = turns.clone().try_acquire_owned() else {
            tracing::debug!(server = %self.server, "dropped: to {what}, of which the server has not taken enough");
            return;
        };
        let shared = self.clone();
        self.supervisor.spawn(Stage::Work, format!("upstream {}: {what}", self.server), async move {
            let _turn = turn;
            let told = tokio::select! {
                () = shared.end.cancelled() => return,
                told = shared.tell(&session, Bytes::from(message)) => told,
            };
            if let Err(error) = told {
                tracing::debug!(server = %shared.server, %error, "a message was not taken");
            }
        });
    }
}
