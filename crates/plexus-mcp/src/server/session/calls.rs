//! Calls of a session: answered with one object, or, after the first event, with a stream that is buffered in the
//! session.

use std::sync::{Arc, Mutex};

use axum::response::Response;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, StatusCode};
use plexus_auth::{Principal, StreamPermit};
use plexus_kit::Stage;
use plexus_tools::{AskError, CallReply};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::questions::{AskOutcome, QuestionChannel};
use super::stream::StreamLog;
use super::{McpSession, get};
use crate::server::call::{self, ProgressWriter, TargetKind};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::running_call::{CallEvent, CallStep, ClientOptions, RunningCall};
use crate::server::{State, identity};
use crate::version::{Dialect, Version};

/// Answers a call with progress as a stream, and any other as one JSON object unless it sends an event. At the limit
/// of open streams, a call with progress is refused; a running call continues without a stream.
pub(super) async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let meta = call::meta(&request.params)?;
    let token = call::progress_token(&meta)?;
    let options = ClientOptions {
        progress: token.is_some(),
        log: session.log_level(),
        capabilities: session.capabilities(),
    };
    let mut slot = token.is_some().then(|| state.streams.enter(&principal)).transpose()?;
    let (mut call, kind) = begin(state, headers, session, request, &meta, principal.clone(), options)?;
    let slot = loop {
        if let Some(slot) = slot {
            break slot;
        }
        match call.next().await {
            CallStep::Ended(reply) => {
                let json = call_json(request.id, reply, &kind, session.version())?;
                return Ok(rpc::json_response(StatusCode::OK, json));
            }
            CallStep::Event(event) => {
                slot = state.streams.enter(&principal).ok();
                match event {
                    event if slot.is_some() => call.put_back(event),
                    CallEvent::Questions(round) => drop(round.answer.send(Err(AskError::TooMany(NO_STREAM)))),
                    CallEvent::Progress(_) | CallEvent::Log(_) => {}
                }
            }
        }
    };
    let permit = StreamPermit::new(state.authenticator.clone(), principal, slot);
    Ok(stream_call(state, session, request.id, call, kind, token, permit))
}

const NO_STREAM: &str =
    "the question needs a stream, but the caller has too many open streams: close one of them first";

/// Answers a call of a batch with one object. Without a stream, it cannot ask questions.
pub(super) async fn answer_in_batch(
    state: &State,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<String, RpcError> {
    let meta = call::meta(&request.params)?;
    let options = ClientOptions::default();
    let (mut call, kind) = begin(state, headers, session, request, &meta, principal, options)?;
    loop {
        if let CallStep::Ended(reply) = call.next().await {
            return call_json(request.id, reply, &kind, session.version());
        }
    }
}

fn begin(
    state: &State,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    meta: &Map<String, Value>,
    principal: Arc<Principal>,
    options: ClientOptions,
) -> Result<(RunningCall, TargetKind), RpcError> {
    let key = identity::session_key(&principal, Some(session.client()), meta, headers, Some(session.id()))?;
    let target = call::target(state, &principal, &request.method, &request.params)?;
    let kind = target.kind.clone();
    let registration = session.register_call(request.id);
    let mut call = call::build(target, meta, headers, key, registration.cancel())?;
    // Registered until its end, so that a client that lost the connection can cancel it on another one.
    call.until_end = Some(Box::new(registration));
    Ok((RunningCall::begin(&state.dispatcher, principal, call, options), kind))
}

fn call_json(
    id: &RawValue,
    reply: CallReply,
    kind: &TargetKind,
    version: Version,
) -> Result<String, RpcError> {
    let meta = call::reply_meta(&reply);
    let members = call::result_members(reply, kind, Dialect::Session(version))?;
    Ok(rpc::result_json(id, &format!("{{{members},\"_meta\":{{{meta}}}}}")))
}

/// Runs the call in a task that writes to a stream buffered in the session. A client that loses the connection
/// resumes the stream while the call continues.
fn stream_call(
    state: &Arc<State>,
    session: &Arc<McpSession>,
    id: &RawValue,
    call: RunningCall,
    kind: TargetKind,
    token: Option<String>,
    permit: StreamPermit,
) -> Response {
    let log = session.new_stream();
    let writer = StreamWriter {
        id: id.to_owned(),
        kind,
        progress: token.map(ProgressWriter::new),
        cancelled: call.cancel.clone(),
        client: Arc::new(QuestionChannel {
            session: session.clone(),
            log: log.clone(),
            timeout: state.options.question_timeout,
            stopping: state.stopping.clone(),
            pages: Mutex::default(),
        }),
    };
    state.supervisor.spawn(Stage::Work, "mcp call stream", writer.run(call).in_current_span());
    get::follow(state, session, permit, log, 0)
}

/// Writes the events and the result of a call to its stream.
struct StreamWriter {
    id: Box<RawValue>,
    kind: TargetKind,
    progress: Option<ProgressWriter>,
    /// Also cancelled by the client, which then expects no answer.
    cancelled: CancellationToken,
    client: Arc<QuestionChannel>,
}

impl StreamWriter {
    async fn run(mut self, mut call: RunningCall) {
        let mut questions = FuturesUnordered::new();
        let mut stopped = false;
        let reply = loop {
            let step = tokio::select! {
            biased;
            Some(outcome) = questions.next(), if !questions.is_empty() => {
                if matches!(outcome, AskOutcome::Stopping) && !self.cancelled.is_cancelled() {
                    stopped = true;
                    self.cancelled.cancel();
                }
                continue;
            }
            step = call.next() => step,
            };
            match step {
                CallStep::Event(CallEvent::Questions(round)) => {
                    questions.push(self.client.clone().ask(round))
                }
                CallStep::Event(CallEvent::Progress(progress)) => {
                    if let Some(json) = self.progress.as_mut().and_then(|writer| writer.json(&progress)) {
                        self.log().push_droppable(json);
                    }
                }
                CallStep::Event(CallEvent::Log(line)) => self.log().push_droppable(call::log_json(&line)),
                CallStep::Ended(reply) => break reply,
            }
        };
        // Open questions are withdrawn before the result.
        drop(questions);
        self.client.finish_pages();
        // A client that cancelled the request expects no answer.
        let expects_answer = stopped || !self.cancelled.is_cancelled();
        let version = self.client.session.version();
        let json = expects_answer.then(|| {
            call_json(&self.id, reply, &self.kind, version)
                .unwrap_or_else(|error| error.with_id(&self.id).to_json())
        });
        self.log().finish(json);
        self.client.session.trim();
    }

    fn log(&self) -> &StreamLog {
        &self.client.log
    }
}

impl Drop for StreamWriter {
    /// Ends the stream also after a panic, so that no client waits forever.
    fn drop(&mut self) {
        if self.log().is_finished() {
            return;
        }
        let error = RpcError::new(StatusCode::OK, rpc::INTERNAL_ERROR, HUB_FAILED).with_id(&self.id);
        self.log().finish((!self.cancelled.is_cancelled()).then(|| error.to_json()));
        self.client.session.trim();
    }
}

const HUB_FAILED: &str = "the hub failed while the call ran. It is unknown whether the call has done its work. \
                          Check its effects before you call again";

#[cfg(test)]
mod tests;
