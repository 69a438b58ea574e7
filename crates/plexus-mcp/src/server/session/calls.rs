//! Calls of a session: answered with one object, or with a stream that is kept with the session.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use plexus_kit::Stage;
use plexus_tools::{CallReply, ProgressSink};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::{McpSession, get};
use crate::server::call::{self, ProgressWriter, Subject};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::version::{Dialect, Version};
use crate::server::welcome::Welcome;
use crate::server::{State, identity};

const PROGRESS_QUEUE: usize = 64;

/// A call that wants progress is answered as a stream, everything else as one JSON object.
pub(super) async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let meta = call::meta(&request.params)?;
    match call::progress_token(&meta)? {
        None => answer_plainly(state, headers, session, request, principal)
            .await
            .map(|json| rpc::json_response(StatusCode::OK, json)),
        Some(token) => stream_call(state, headers, session, request, &meta, token, principal),
    }
}

/// Always one object, as in a batch.
pub(super) async fn answer_plainly(
    state: &State,
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<String, RpcError> {
    let meta = call::meta(&request.params)?;
    let key = identity::session_key(&principal, Some(session.client()), &meta, headers, Some(session.id()))?;
    let running = session.running(request.id);
    let target = call::target(state, &principal, &request.method, &request.params)?;
    let subject = target.subject.clone();
    let mut call = call::begin(target, &meta, headers, key, running.cancel(), None)?;
    // A client that lost the connection can still cancel the call on another one.
    call.until_end = Some(Box::new(running));
    let reply = state.dispatcher.call(principal, call).await;
    call_json(request.id, reply, &subject, session.version())
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
    headers: &HeaderMap,
    session: &Arc<McpSession>,
    request: &Request<'_>,
    meta: &Map<String, Value>,
    token: String,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let (sender, mut progress) = mpsc::channel(PROGRESS_QUEUE);
    let sink: ProgressSink = Arc::new(move |progress| {
        let _ = sender.try_send(progress);
    });
    let key = identity::session_key(&principal, Some(session.client()), meta, headers, Some(session.id()))?;
    let running = session.running(request.id);
    let cancel = running.cancel();
    let target = call::target(state, &principal, &request.method, &request.params)?;
    let subject = target.subject.clone();
    let call = call::begin(target, meta, headers, key, cancel.clone(), Some(sink))?;
    let place = state.streams.enter(&principal)?;
    let log = session.new_stream();
    let (id, version) = (request.id.to_owned(), session.version());
    let (dispatcher, feed, holder) = (state.dispatcher.clone(), log.clone(), principal.clone());
    let kept_with = session.clone();
    let task = async move {
        let mut writer = ProgressWriter::new(token);
        let mut reply = std::pin::pin!(dispatcher.call(principal, call));
        let reply = loop {
            tokio::select! {
                biased;
                Some(progress) = progress.recv() => {
                    if let Some(json) = writer.json(&progress) {
                        feed.push(json);
                    }
                }
                reply = &mut reply => break reply,
            }
        };
        drop(running);
        // What it told on its way comes before its end.
        while let Ok(progress) = progress.try_recv() {
            if let Some(json) = writer.json(&progress) {
                feed.push(json);
            }
        }
        // Who cancelled a request expects no answer to it.
        let json = (!cancel.is_cancelled()).then(|| {
            call_json(&id, reply, &subject, version).unwrap_or_else(|error| error.with_id(&id).to_json())
        });
        feed.finish(json);
        kept_with.trim();
    };
    state.supervisor.spawn(Stage::Work, "mcp call stream", task.in_current_span());
    Ok(get::follow(state, session, Welcome::new(state.authenticator.clone(), holder, place), log, 0))
}
