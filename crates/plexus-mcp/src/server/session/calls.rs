//! Calls of a session: answered with one object, or, as soon as there is something to say on the way, with a stream that
//! is kept with the session.

use std::sync::{Arc, Mutex};

use axum::response::Response;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use plexus_kit::Stage;
use plexus_tools::{CallReply, Unasked};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::questions::{AskOutcome, Client};
use super::stream::StreamLog;
use super::{McpSession, get};
use crate::server::call::{self, ProgressWriter, Subject};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::running_call::{CallEvent, Next, RunningCall, Wants};
use crate::server::welcome::Welcome;
use crate::server::{State, identity};
use crate::version::{Dialect, Version};

/// A call that wants progress is answered as a stream; any other as one JSON object, unless it asks or its log is read.
/// Where there is no place for a stream, one that needs it from the beginning is not begun; one that runs goes on without.
pub(super) async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let meta = call::meta(&request.params)?;
    let token = call::progress_token(&meta)?;
    let wants = Wants { progress: token.is_some(), log: session.log_level(), can: session.can() };
    let mut place = token.is_some().then(|| state.streams.enter(&principal)).transpose()?;
    let (mut call, subject) = begin(state, headers, session, request, &meta, principal.clone(), wants)?;
    let place = loop {
        if let Some(place) = place {
            break place;
        }
        match call.next().await {
            Next::Ended(reply) => {
                let json = call_json(request.id, reply, &subject, session.version())?;
                return Ok(rpc::json_response(StatusCode::OK, json));
            }
            Next::Event(told) => {
                place = state.streams.enter(&principal).ok();
                match told {
                    told if place.is_some() => call.put_back(told),
                    CallEvent::Asked(round) => drop(round.answer.send(Err(Unasked::TooMany(NO_STREAM)))),
                    CallEvent::Progress(_) | CallEvent::Log(_) => {}
                }
            }
        }
    };
    let welcome = Welcome::new(state.authenticator.clone(), principal, place);
    Ok(stream_call(state, session, request.id, call, subject, token, welcome))
}

const NO_STREAM: &str =
    "the caller has as many streams open as it may, and there is none to ask on: close one of them first";

/// Always one object, as in a batch: there is no stream to ask on.
pub(super) async fn answer_plainly(
    state: &State,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<String, RpcError> {
    let meta = call::meta(&request.params)?;
    let (mut call, subject) = begin(state, headers, session, request, &meta, principal, Wants::default())?;
    loop {
        if let Next::Ended(reply) = call.next().await {
            return call_json(request.id, reply, &subject, session.version());
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
    wants: Wants,
) -> Result<(RunningCall, Subject), RpcError> {
    let key = identity::session_key(&principal, Some(session.client()), meta, headers, Some(session.id()))?;
    let target = call::target(state, &principal, &request.method, &request.params)?;
    let subject = target.subject.clone();
    let running = session.running(request.id);
    let mut call = call::begin(target, meta, headers, key, running.cancel())?;
    // A client that lost the connection can still cancel the call on another one.
    call.until_end = Some(Box::new(running));
    Ok((RunningCall::begin(&state.dispatcher, principal, call, wants), subject))
}

fn call_json(
    id: &RawValue,
    reply: CallReply,
    subject: &Subject,
    version: Version,
) -> Result<String, RpcError> {
    let meta = call::reply_meta(&reply);
    let members = call::result_members(reply, subject, Dialect::Session(version))?;
    Ok(rpc::result_json(id, &format!("{{{members},\"_meta\":{{{meta}}}}}")))
}

/// Runs the call in a task that feeds a stream kept with the session. A client that loses the
/// connection loses nothing: it resumes the stream, and the call went on.
fn stream_call(
    state: &Arc<State>,
    session: &Arc<McpSession>,
    id: &RawValue,
    call: RunningCall,
    subject: Subject,
    token: Option<String>,
    welcome: Welcome,
) -> Response {
    let log = session.new_stream();
    let feed = Feed {
        id: id.to_owned(),
        subject,
        progress: token.map(ProgressWriter::new),
        cancelled: call.cancel.clone(),
        client: Arc::new(Client {
            session: session.clone(),
            log: log.clone(),
            patience: state.options.asked,
            stopping: state.stopping.clone(),
            pages: Mutex::default(),
        }),
    };
    state.supervisor.spawn(Stage::Work, "mcp call stream", feed.run(call).in_current_span());
    get::follow(state, session, welcome, log, 0)
}

/// Writes down what a call says for its stream.
struct Feed {
    id: Box<RawValue>,
    subject: Subject,
    progress: Option<ProgressWriter>,
    /// Also by the client, who then expects no answer.
    cancelled: CancellationToken,
    client: Arc<Client>,
}

impl Feed {
    async fn run(mut self, mut call: RunningCall) {
        let mut asked = FuturesUnordered::new();
        let mut stopped = false;
        let reply = loop {
            let next = tokio::select! {
                biased;
                Some(over) = asked.next(), if !asked.is_empty() => {
                    if matches!(over, AskOutcome::Stopping) && !self.cancelled.is_cancelled() {
                        stopped = true;
                        self.cancelled.cancel();
                    }
                    continue;
                }
                next = call.next() => next,
            };
            match next {
                Next::Event(CallEvent::Asked(round)) => asked.push(self.client.clone().ask(round)),
                Next::Event(CallEvent::Progress(progress)) => {
                    if let Some(json) = self.progress.as_mut().and_then(|writer| writer.json(&progress)) {
                        self.log().push_passing(json);
                    }
                }
                Next::Event(CallEvent::Log(line)) => self.log().push_passing(call::log_json(&line)),
                Next::Ended(reply) => break reply,
            }
        };
        // What is asked no more is said before the end.
        drop(asked);
        self.client.finish_pages();
        // Who cancelled a request expects no answer to it.
        let told = stopped || !self.cancelled.is_cancelled();
        let version = self.client.session.version();
        let json = told.then(|| {
            call_json(&self.id, reply, &self.subject, version)
                .unwrap_or_else(|error| error.with_id(&self.id).to_json())
        });
        self.log().finish(json);
        self.client.session.trim();
    }

    fn log(&self) -> &StreamLog {
        &self.client.log
    }
}

impl Drop for Feed {
    /// A stream has an end, also where the hub failed before it came to one: nobody waits for what cannot come.
    fn drop(&mut self) {
        if self.log().is_finished() {
            return;
        }
        let broken = RpcError::new(StatusCode::OK, rpc::INTERNAL_ERROR, BROKEN).with_id(&self.id);
        self.log().finish((!self.cancelled.is_cancelled()).then(|| broken.to_json()));
        self.client.session.trim();
    }
}

const BROKEN: &str = "the hub failed while the call ran, and nobody knows whether it has done its work. Look before calling again";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use serde_json::Value;
    use tokio_util::sync::CancellationToken;

    use super::{Client, Feed, Subject};
    use crate::server::session::McpSession;
    use crate::server::session::stream::Next;

    fn feed() -> Feed {
        let session = Arc::new(McpSession::for_test());
        Feed {
            id: serde_json::value::to_raw_value("a").unwrap(),
            subject: Subject::Tool,
            progress: None,
            cancelled: CancellationToken::new(),
            client: Arc::new(Client {
                log: session.new_stream(),
                session,
                patience: Duration::ZERO,
                stopping: CancellationToken::new(),
                pages: Mutex::default(),
            }),
        }
    }

    #[test]
    fn a_call_that_breaks_off_ends_its_stream_and_says_so() {
        let feed = feed();
        let log = feed.client.log.clone();
        drop(feed);
        let Next::Message(number, json) = log.next(0) else { panic!("nothing is said") };
        let answer: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&"a".into(), &(-32603).into()));
        assert!(matches!(log.next(number), Next::End));
    }

    #[test]
    fn a_cancelled_call_that_breaks_off_ends_its_stream_and_says_nothing() {
        let feed = feed();
        feed.cancelled.cancel();
        let log = feed.client.log.clone();
        drop(feed);
        assert!(matches!(log.next(0), Next::End));
    }
}
