//! `tools/call`: answered with one object, or with a stream where the client wants to hear how it goes.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use plexus_tools::{CallReply, Progress, ProgressSink};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::complete_json;
use super::meta::RequestMeta;
use crate::server::call::{self, ProgressWriter, Subject};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::version::Dialect;
use crate::server::welcome::Welcome;
use crate::server::{State, headers, identity, sse};

/// Progress that waits to be sent; more is dropped, for it is only ever the newest that matters.
const PROGRESS_QUEUE: usize = 64;

pub(super) async fn answer(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    meta: &RequestMeta,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    let target = call::target(state, &principal, &request.method, &request.params)?;
    headers::check_params(headers, &target, &principal, state)?;
    let subject = target.subject.clone();
    let session = identity::session_key(&principal, meta.client(), &meta.members, headers, None)?;
    let cancel = CancellationToken::new();
    // Dropped with the response: a client that closes the stream cancels the call.
    let closed = cancel.clone().drop_guard();
    let Some(token) = call::progress_token(&meta.members)? else {
        let call = call::begin(target, &meta.members, headers, session, cancel, None)?;
        let reply = state.dispatcher.call(principal, call).await;
        drop(closed);
        return Ok(rpc::json_response(StatusCode::OK, call_json(request.id, reply, &subject)?));
    };
    let (sender, progress) = mpsc::channel(PROGRESS_QUEUE);
    let sink: ProgressSink = Arc::new(move |progress| {
        let _ = sender.try_send(progress);
    });
    let call = call::begin(target, &meta.members, headers, session, cancel, Some(sink))?;
    let place = state.streams.enter(&principal)?;
    let dispatcher = state.dispatcher.clone();
    let stream = CallStream {
        welcome: Welcome::new(state.authenticator.clone(), principal.clone(), place),
        id: request.id.to_owned(),
        subject,
        // The body is read after the request was answered, and still belongs to it.
        reply: Box::pin(async move { dispatcher.call(principal, call).await }.in_current_span()),
        progress,
        writer: ProgressWriter::new(token),
        ticks: sse::ticks(state.options.keep_alive),
        ended: None,
        done: false,
        _closed: closed,
    };
    Ok(sse::response(stream::unfold(stream, |mut stream| async { Some((stream.next().await?, stream)) })))
}

fn call_json(id: &RawValue, reply: CallReply, subject: &Subject) -> Result<String, RpcError> {
    let meta = call::reply_meta(&reply);
    Ok(complete_json(id, &call::result_members(reply, subject, Dialect::Modern)?, &meta))
}

/// A call whose progress is told on the way.
struct CallStream {
    welcome: Welcome,
    id: Box<RawValue>,
    subject: Subject,
    reply: futures_util::future::BoxFuture<'static, CallReply>,
    progress: mpsc::Receiver<Progress>,
    writer: ProgressWriter,
    ticks: Interval,
    /// How it ended, when progress may still have to be told.
    ended: Option<CallReply>,
    done: bool,
    _closed: tokio_util::sync::DropGuard,
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        loop {
            // What it told on its way comes before its end.
            while let Ok(progress) = self.progress.try_recv() {
                if let Some(json) = self.writer.json(&progress) {
                    return Some(sse::event(None, &json));
                }
            }
            if let Some(reply) = self.ended.take() {
                self.done = true;
                let json = call_json(&self.id, reply, &self.subject)
                    .unwrap_or_else(|error| error.with_id(&self.id).to_json());
                return Some(sse::event(None, &json));
            }
            tokio::select! {
                biased;
                Some(progress) = self.progress.recv() => {
                    if let Some(json) = self.writer.json(&progress) {
                        return Some(sse::event(None, &json));
                    }
                }
                reply = &mut self.reply => self.ended = Some(reply),
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }
}
