//! Calls: answered with one object, or with a stream where the client wants to hear how it goes. The last that is said of
//! either is the result, a question, or the handle of a task.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use plexus_kit::QuotaSlot;
use plexus_tools::{CallReply, LogLevel, RawJson};
use serde_json::value::RawValue;
use tokio::time::{Instant, Interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::asking::{self, Identity};
use super::complete_json;
use super::meta::RequestMeta;
use crate::server::call::{self, ProgressWriter, Subject, Target};
use crate::server::detached::{Resumed, tasks};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::running_call::{CallEvent, Next, RunningCall, Wants};
use crate::server::welcome::Welcome;
use crate::server::{State, headers, identity, sse};
use crate::version::Dialect;

pub(super) async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    meta: &RequestMeta,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let target = call::target(state, &principal, &request.method, &request.params)?;
    headers::check_params(headers, &target, &principal, state)?;
    let token = call::progress_token(&meta.members)?;
    let responses = asking::responses(request)?;
    let name = if meta.can.tasks { target.name.clone() } else { String::new() };
    let log = meta.log;
    // Before anything is begun or taken: who is refused for want of a stream can come again as if nothing had been.
    let place = (token.is_some() || log.is_some()).then(|| state.streams.enter(&principal)).transpose()?;
    let about = About { id: Cow::Borrowed(request.id), subject: target.subject.clone(), name };
    let running = match asking::state(request)? {
        None => {
            let wants = Wants { progress: token.is_some(), log: meta.log, can: meta.can };
            let session = identity::session_key(&principal, meta.client(), &meta.members, headers, None)?;
            let cancel = CancellationToken::new();
            // Dropped with the response: a client that closes the stream cancels the call.
            let closed = cancel.clone().drop_guard();
            let mut call = call::begin(target, &meta.members, headers, session, cancel)?;
            call.inputs = responses.map(RawJson::of);
            let call = RunningCall::begin(&state.dispatcher, principal.clone(), call, wants);
            Running::new(state, principal, about, call, closed, Identity::wanted(request, meta.can))
        }
        Some(ticket) => {
            let identity = Identity::of(request);
            let digest = identity.digest();
            if let Err(error) = still_visible(state, &principal, &target) {
                state.detached.give_up(&principal, digest, &ticket);
                return Err(error);
            }
            match state.detached.take(&principal, digest, &ticket, responses).await? {
                Resumed::Call(call, closed) => {
                    call.now_can(meta.can);
                    Running::new(state, principal, about, *call, closed, Some(identity))
                }
                Resumed::Again { state, requests } => {
                    let json = asking::input_required(request.id, &requests, &state, None);
                    return Ok(rpc::json_response(StatusCode::OK, json));
                }
                Resumed::Ended(reply) => return about.ended(*reply).map(json),
            }
        }
    };
    let running = running.detached_after(meta.can.tasks.then_some(state.options.task_after));
    match place {
        None => running.wait().await.map(json),
        Some(place) => Ok(stream_call(state, running, token.map(ProgressWriter::new), log, place)),
    }
}

fn json(json: String) -> Response {
    rpc::json_response(StatusCode::OK, json)
}

/// Whoever comes back for a call must still be somebody who may make it.
fn still_visible(state: &State, principal: &Principal, target: &Target) -> Result<(), RpcError> {
    if target.subject != Subject::Tool {
        // Found out when it was looked for.
        return Ok(());
    }
    match state.dispatcher.may_call(principal, &target.name, &target.arguments) {
        Ok(()) => Ok(()),
        Err(error) => Err(call::unknown(error)),
    }
}

/// What is needed to write down how a call went.
struct About<'r> {
    id: Cow<'r, RawValue>,
    subject: Subject,
    /// What was called, as the client calls it; for tasks.
    name: String,
}

impl About<'_> {
    fn ended(&self, reply: CallReply) -> Result<String, RpcError> {
        let meta = call::reply_meta(&reply);
        Ok(complete_json(&self.id, &call::result_members(reply, &self.subject, Dialect::Modern)?, &meta))
    }
}

/// A call that a request waits for.
struct Running<'r> {
    state: Arc<State>,
    principal: Arc<Principal>,
    about: About<'r>,
    /// None when it has been put aside.
    call: Option<RunningCall>,
    /// Cancels it when the request is dropped.
    closed: DropGuard,
    /// There where the client can be asked.
    identity: Option<Identity>,
    /// When it goes on as a task.
    late: Option<Instant>,
}

enum Happened {
    Next(Next),
    /// It takes long enough to be a task.
    Late,
}

/// What is said of a running call.
enum CallMessage {
    /// On the way, if anybody listens.
    Event(CallEvent),
    Last(Result<String, RpcError>),
}

impl<'r> Running<'r> {
    fn new(
        state: &Arc<State>,
        principal: Arc<Principal>,
        about: About<'r>,
        call: RunningCall,
        closed: DropGuard,
        identity: Option<Identity>,
    ) -> Self {
        Self { state: state.clone(), principal, about, call: Some(call), closed, identity, late: None }
    }

    fn detached_after(self, patience: Option<Duration>) -> Self {
        // A task is a tool's only.
        let patience = patience.filter(|_| self.about.subject == Subject::Tool);
        Self { late: patience.map(|patience| Instant::now() + patience), ..self }
    }

    /// The same for who outlives the request.
    fn owned(self) -> Running<'static> {
        let Self { state, principal, about: About { id, subject, name }, call, closed, identity, late } =
            self;
        let about = About { id: Cow::Owned(id.into_owned()), subject, name };
        Running { state, principal, about, call, closed, identity, late }
    }

    /// What happens next. Nothing is lost when this is dropped before it is ready.
    async fn happens(&mut self) -> Happened {
        let Some(call) = &mut self.call else { return std::future::pending().await };
        match self.late {
            None => Happened::Next(call.next().await),
            Some(late) => match tokio::time::timeout_at(late, call.next()).await {
                Ok(next) => Happened::Next(next),
                Err(_) => Happened::Late,
            },
        }
    }

    /// What that has to say. Not to be dropped before it is ready.
    async fn said(&mut self, happened: Happened) -> Option<CallMessage> {
        match happened {
            // Who asked does not wait any more.
            Happened::Next(Next::Event(CallEvent::Asked(round))) if round.answer.is_closed() => None,
            Happened::Next(Next::Event(CallEvent::Asked(round))) => {
                // One that nobody can come back for is told that nobody answers.
                let digest = self.identity.as_ref()?.digest();
                match self.state.detached.park(&self.principal, digest, self.call.take()?, round) {
                    Ok(parked) => {
                        let (requests, state) = (&parked.requests, &parked.state);
                        let id = &self.about.id;
                        Some(CallMessage::Last(Ok(asking::input_required(
                            id,
                            requests,
                            state,
                            Some(parked.call_id),
                        ))))
                    }
                    Err(call) => {
                        self.call = Some(*call);
                        None
                    }
                }
            }
            Happened::Next(Next::Event(told)) => Some(CallMessage::Event(told)),
            Happened::Next(Next::Ended(reply)) => Some(CallMessage::Last(self.about.ended(reply))),
            Happened::Late => {
                self.late = None;
                let call = self.call.take()?;
                let call_id = call.call_id();
                let About { subject, name, id } = &self.about;
                match tasks::detach(&self.state, &self.principal, call, name, subject).await {
                    Ok(members) => Some(CallMessage::Last(Ok(asking::task(id, &members, call_id)))),
                    Err(call) => {
                        self.call = Some(*call);
                        None
                    }
                }
            }
        }
    }

    /// Nobody listens to what is said on the way.
    async fn wait(mut self) -> Result<String, RpcError> {
        loop {
            let happened = self.happens().await;
            if let Some(CallMessage::Last(last)) = self.said(happened).await {
                self.let_go();
                return last;
            }
        }
    }

    /// What comes of it now is not for this request: its end is not the end of the call.
    fn let_go(self) {
        self.closed.disarm();
    }
}

/// Progress and log lines on the way.
fn stream_call(
    state: &Arc<State>,
    running: Running<'_>,
    progress: Option<ProgressWriter>,
    log: Option<LogLevel>,
    place: QuotaSlot,
) -> Response {
    let stream = CallStream {
        welcome: Welcome::new(state.authenticator.clone(), running.principal.clone(), place),
        running: Some(running.owned()),
        progress,
        log,
        ticks: sse::ticks(state.options.keep_alive),
    };
    sse::response(stream::unfold(stream, |mut stream| async { Some((stream.next().await?, stream)) }))
}

struct CallStream {
    welcome: Welcome,
    /// None when all is said.
    running: Option<Running<'static>>,
    progress: Option<ProgressWriter>,
    /// What this request wants to read. The call may have been begun by one that wanted more.
    log: Option<LogLevel>,
    ticks: Interval,
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        let running = self.running.as_mut()?;
        let last = loop {
            let happened = tokio::select! {
                biased;
                happened = running.happens() => happened,
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            };
            let json = match running.said(happened).await {
                Some(CallMessage::Event(CallEvent::Progress(progress))) => {
                    self.progress.as_mut().and_then(|writer| writer.json(&progress))
                }
                Some(CallMessage::Event(CallEvent::Log(line))) => {
                    self.log.filter(|least| line.level >= *least).map(|_| call::log_json(&line))
                }
                Some(CallMessage::Event(CallEvent::Asked(_))) | None => None,
                Some(CallMessage::Last(last)) => break last,
            };
            if let Some(json) = json {
                return Some(sse::event(None, &json));
            }
        };
        let running = self.running.take()?;
        let json = last.unwrap_or_else(|error| error.with_id(&running.about.id).to_json());
        running.let_go();
        Some(sse::event(None, &json))
    }
}
