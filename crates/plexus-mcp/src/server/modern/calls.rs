//! Calls: answered with one object, or with an event stream if the client wants progress or log lines. Either ends
//! with the result, questions, or a task.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::{Principal, StreamPermit};
use plexus_kit::QuotaSlot;
use plexus_tools::{CallReply, LogLevel, RawJson};
use serde_json::value::RawValue;
use tokio::time::{Instant, Interval};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::complete_json;
use super::input_required::{self, RequestIdentity};
use super::meta::RequestMeta;
use crate::server::call::{self, ProgressWriter, Target, TargetKind};
use crate::server::detached::{Resumed, tasks};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::running_call::{CallEvent, CallStep, ClientOptions, RunningCall};
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
    let responses = input_required::responses(request)?;
    let name = if meta.capabilities.tasks { target.name.clone() } else { String::new() };
    let log = meta.log;
    // Reserved before the call begins or is resumed, so that a refused request can be repeated unchanged.
    let slot = (token.is_some() || log.is_some()).then(|| state.streams.enter(&principal)).transpose()?;
    let context = ReplyContext { id: Cow::Borrowed(request.id), kind: target.kind.clone(), name };
    let awaited = match input_required::state(request)? {
        None => {
            let options =
                ClientOptions { progress: token.is_some(), log: meta.log, capabilities: meta.capabilities };
            let session = identity::session_key(&principal, meta.client(), &meta.members, headers, None)?;
            let cancel = CancellationToken::new();
            // Dropped with the response: a client that closes the stream cancels the call.
            let cancel_guard = cancel.clone().drop_guard();
            let mut call = call::build(target, &meta.members, headers, session, cancel)?;
            call.inputs = responses.map(RawJson::of);
            let call = RunningCall::begin(&state.dispatcher, principal.clone(), call, options);
            let identity = RequestIdentity::if_capable(request, meta.capabilities);
            AwaitedCall::new(state, principal, context, call, cancel_guard, identity)
        }
        Some(ticket) => {
            let identity = RequestIdentity::of(request);
            let digest = identity.digest();
            if let Err(error) = still_visible(state, &principal, &target) {
                state.detached.abandon(&principal, digest, &ticket);
                return Err(error);
            }
            match state.detached.resume(&principal, digest, &ticket, responses).await? {
                Resumed::Call(call, cancel_guard) => {
                    call.set_capabilities(meta.capabilities);
                    AwaitedCall::new(state, principal, context, *call, cancel_guard, Some(identity))
                }
                Resumed::InputRequired { state, requests } => {
                    let json = input_required::input_required(request.id, &requests, &state, None);
                    return Ok(rpc::json_response(StatusCode::OK, json));
                }
                Resumed::Ended(reply) => return context.result_json(*reply).map(json),
            }
        }
    };
    let awaited = awaited.task_after(meta.capabilities.tasks.then_some(state.options.task_after));
    match slot {
        None => awaited.wait().await.map(json),
        Some(slot) => Ok(stream_call(state, awaited, token.map(ProgressWriter::new), log, slot)),
    }
}

fn json(json: String) -> Response {
    rpc::json_response(StatusCode::OK, json)
}

/// Checks that the principal that resumes a call may still make it.
fn still_visible(state: &State, principal: &Principal, target: &Target) -> Result<(), RpcError> {
    if target.kind != TargetKind::Tool {
        // Checked when the target was looked up.
        return Ok(());
    }
    match state.dispatcher.may_call(principal, &target.name, &target.arguments) {
        Ok(()) => Ok(()),
        Err(error) => Err(call::unknown_tool(error)),
    }
}

/// The data needed to write the reply to a call.
struct ReplyContext<'r> {
    id: Cow<'r, RawValue>,
    kind: TargetKind,
    /// The client's name of the target; used for tasks only.
    name: String,
}

impl ReplyContext<'_> {
    fn result_json(&self, reply: CallReply) -> Result<String, RpcError> {
        let meta = call::reply_meta(&reply);
        Ok(complete_json(&self.id, &call::result_members(reply, &self.kind, Dialect::Modern)?, &meta))
    }
}

/// A call that a request waits for.
struct AwaitedCall<'r> {
    state: Arc<State>,
    principal: Arc<Principal>,
    context: ReplyContext<'r>,
    /// None after the call was parked or became a task.
    call: Option<RunningCall>,
    /// Cancels the call when the request is dropped.
    cancel_guard: DropGuard,
    /// Present if the client supports questions or tasks.
    identity: Option<RequestIdentity>,
    /// The time at which the call becomes a task.
    task_at: Option<Instant>,
}

enum Step {
    Call(CallStep),
    /// The call has run long enough to become a task.
    TaskDue,
}

/// A message about a running call for the client.
enum CallMessage {
    /// Sent only on a stream.
    Event(CallEvent),
    Last(Result<String, RpcError>),
}

impl<'r> AwaitedCall<'r> {
    fn new(
        state: &Arc<State>,
        principal: Arc<Principal>,
        context: ReplyContext<'r>,
        call: RunningCall,
        cancel_guard: DropGuard,
        identity: Option<RequestIdentity>,
    ) -> Self {
        let (state, call) = (state.clone(), Some(call));
        Self { state, principal, context, call, cancel_guard, identity, task_at: None }
    }

    fn task_after(self, delay: Option<Duration>) -> Self {
        // Only calls of tools can become tasks.
        let delay = delay.filter(|_| self.context.kind == TargetKind::Tool);
        Self { task_at: delay.map(|delay| Instant::now() + delay), ..self }
    }

    /// Makes it independent of the request's body.
    fn owned(self) -> AwaitedCall<'static> {
        let Self { state, principal, context, call, cancel_guard, identity, task_at } = self;
        let ReplyContext { id, kind, name } = context;
        let context = ReplyContext { id: Cow::Owned(id.into_owned()), kind, name };
        AwaitedCall { state, principal, context, call, cancel_guard, identity, task_at }
    }

    /// Waits for the next step. Cancel-safe.
    async fn next(&mut self) -> Step {
        let Some(call) = &mut self.call else { return std::future::pending().await };
        match self.task_at {
            None => Step::Call(call.next().await),
            Some(task_at) => match tokio::time::timeout_at(task_at, call.next()).await {
                Ok(step) => Step::Call(step),
                Err(_) => Step::TaskDue,
            },
        }
    }

    /// Handles a step; returns the message it causes. Not cancel-safe.
    async fn handle(&mut self, step: Step) -> Option<CallMessage> {
        match step {
            // The call no longer waits for the answers.
            Step::Call(CallStep::Event(CallEvent::Questions(round))) if round.answer.is_closed() => None,
            Step::Call(CallStep::Event(CallEvent::Questions(round))) => {
                // Without an identity the call cannot be resumed: dropping the round reports that the client is gone.
                let digest = self.identity.as_ref()?.digest();
                match self.state.detached.park(&self.principal, digest, self.call.take()?, round) {
                    Ok(parked) => {
                        let (requests, state) = (&parked.requests, &parked.state);
                        let call_id = Some(parked.call_id);
                        let json = input_required::input_required(&self.context.id, requests, state, call_id);
                        Some(CallMessage::Last(Ok(json)))
                    }
                    Err(call) => {
                        self.call = Some(*call);
                        None
                    }
                }
            }
            Step::Call(CallStep::Event(event)) => Some(CallMessage::Event(event)),
            Step::Call(CallStep::Ended(reply)) => Some(CallMessage::Last(self.context.result_json(reply))),
            Step::TaskDue => {
                self.task_at = None;
                let call = self.call.take()?;
                let call_id = call.call_id();
                let ReplyContext { id, kind, name } = &self.context;
                match tasks::detach(&self.state, &self.principal, call, name, kind).await {
                    Ok(members) => Some(CallMessage::Last(Ok(input_required::task(id, &members, call_id)))),
                    Err(call) => {
                        self.call = Some(*call);
                        None
                    }
                }
            }
        }
    }

    /// Waits for the last message; discards events.
    async fn wait(mut self) -> Result<String, RpcError> {
        loop {
            let step = self.next().await;
            if let Some(CallMessage::Last(last)) = self.handle(step).await {
                self.disarm();
                return last;
            }
        }
    }

    /// Ends the request without cancelling the call.
    fn disarm(self) {
        self.cancel_guard.disarm();
    }
}

/// Answers with an event stream.
fn stream_call(
    state: &Arc<State>,
    awaited: AwaitedCall<'_>,
    progress: Option<ProgressWriter>,
    log: Option<LogLevel>,
    slot: QuotaSlot,
) -> Response {
    let stream = CallStream {
        permit: StreamPermit::new(state.authenticator.clone(), awaited.principal.clone(), slot),
        awaited: Some(awaited.owned()),
        progress,
        log,
        ticks: sse::ticks(state.options.keep_alive),
    };
    sse::response(stream::unfold(stream, |mut stream| async { Some((stream.next().await?, stream)) }))
}

struct CallStream {
    permit: StreamPermit,
    /// None after the last message.
    awaited: Option<AwaitedCall<'static>>,
    progress: Option<ProgressWriter>,
    /// The log level of this request. The request that began the call may have requested a lower one.
    log: Option<LogLevel>,
    ticks: Interval,
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        let awaited = self.awaited.as_mut()?;
        let last = loop {
            let step = tokio::select! {
                biased;
                step = awaited.next() => step,
                () = self.permit.wait_until_invalid() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            };
            let json = match awaited.handle(step).await {
                Some(CallMessage::Event(CallEvent::Progress(progress))) => {
                    self.progress.as_mut().and_then(|writer| writer.json(&progress))
                }
                Some(CallMessage::Event(CallEvent::Log(line))) => {
                    self.log.filter(|least| line.level >= *least).map(|_| call::log_json(&line))
                }
                Some(CallMessage::Event(CallEvent::Questions(_))) | None => None,
                Some(CallMessage::Last(last)) => break last,
            };
            if let Some(json) = json {
                return Some(sse::event(None, &json));
            }
        };
        let awaited = self.awaited.take()?;
        let json = last.unwrap_or_else(|error| error.with_id(&awaited.context.id).to_json());
        awaited.disarm();
        Some(sse::event(None, &json))
    }
}
