//! `GET`: the session's own stream, and resuming the stream of a call.
//!
//! The session's own stream carries only `tools/list_changed`, which says "look again". Its event
//! ids therefore name the list that the client could see, `g-<fingerprint>`: whoever comes back with
//! an id that is not the present list is told to look again, also after a restart. What the client
//! may not see is not in it, so its coming and going does not show. Streams of calls have ids
//! `c-<stream>-<message>`.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use tokio::sync::watch;
use tokio::time::Interval;

use super::stream::{Next, StreamLog};
use super::{McpSession, State, open};
use crate::server::headers::{LAST_EVENT_ID, accepts};
use crate::server::list::Rendered;
use crate::server::rpc::{INVALID_REQUEST, RpcError};
use crate::server::sse;
use crate::server::welcome::Welcome;

const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

pub(in crate::server) async fn get(
    state: &Arc<State>,
    headers: &HeaderMap,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    if !accepts(headers, "text/event-stream") {
        let message = "this stream is sent as text/event-stream";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, message));
    }
    let session = open(state, headers, &principal).await?;
    let place = state.streams.enter(&principal)?;
    let welcome = Welcome::new(state.authenticator.clone(), principal, place);
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    if let Some((number, after)) = last.and_then(call_event) {
        return Ok(match session.stream(number) {
            Some(log) => follow(state, &session, welcome, log, after),
            // Gone with a restart or for its age: a stream that has nothing more.
            None => sse::response(stream::empty()),
        });
    }
    Ok(listen(state, session, welcome, last))
}

/// `c-<stream>-<message>`.
fn call_event(id: &str) -> Option<(u64, u64)> {
    let (number, message) = id.strip_prefix("c-")?.split_once('-')?;
    Some((number.parse().ok()?, message.parse().ok()?))
}

/// The messages of a call's stream after number `after`, then what comes.
pub(super) fn follow(
    state: &Arc<State>,
    session: &Arc<McpSession>,
    welcome: Welcome,
    log: Arc<StreamLog>,
    after: u64,
) -> Response {
    let follower = Follower {
        welcome,
        moves: log.moves(),
        priming: after == 0 && session.version().has_priming_event(),
        log,
        after,
        ticks: sse::ticks(state.options.keep_alive),
        session: session.clone(),
    };
    sse::response(stream::unfold(follower, |mut follower| async { Some((follower.next().await?, follower)) }))
}

struct Follower {
    welcome: Welcome,
    session: Arc<McpSession>,
    log: Arc<StreamLog>,
    moves: watch::Receiver<()>,
    priming: bool,
    after: u64,
    ticks: Interval,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        let stream = self.log.number();
        if std::mem::take(&mut self.priming) {
            return Some(sse::priming(&format!("c-{stream}-0")));
        }
        loop {
            self.moves.mark_unchanged();
            match self.log.next(self.after) {
                Next::Message(number, json) => {
                    self.after = number;
                    return Some(sse::event(Some(&format!("c-{stream}-{number}")), &json));
                }
                Next::End => return None,
                Next::Wait => {}
            }
            tokio::select! {
                // The log outlives us: an error cannot happen, an ending would.
                moved = self.moves.changed() => moved.ok()?,
                () = self.session.ended().cancelled() => return None,
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }
}

/// The session's own stream, from where the client left it.
fn listen(state: &Arc<State>, session: Arc<McpSession>, welcome: Welcome, last: Option<&str>) -> Response {
    let registry = state.dispatcher.registry();
    let versions = registry.versions();
    let seen = state.lists.rendered(registry, welcome.principal(), session.version().features());
    let (mine, holder) = session.take_listener();
    let behind = last.is_some_and(|last| last != event_id(&seen));
    let listener = Listener {
        // Whoever has something to catch up on gets the new id with that, not before it.
        priming: session.version().has_priming_event() && !behind,
        catch_up: behind,
        welcome,
        state: state.clone(),
        session,
        versions,
        seen,
        mine,
        holder,
        ticks: sse::ticks(state.options.keep_alive),
    };
    sse::response(stream::unfold(listener, |mut listener| async { Some((listener.next().await?, listener)) }))
}

fn event_id(seen: &Rendered) -> String {
    format!("g-{}", seen.fingerprint())
}

struct Listener {
    state: Arc<State>,
    session: Arc<McpSession>,
    welcome: Welcome,
    versions: watch::Receiver<u64>,
    seen: Arc<Rendered>,
    /// Our number, and that of whoever holds the stream now.
    mine: u64,
    holder: watch::Receiver<u64>,
    priming: bool,
    catch_up: bool,
    ticks: Interval,
}

impl Listener {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.priming) {
            return Some(sse::priming(&event_id(&self.seen)));
        }
        if std::mem::take(&mut self.catch_up) {
            return Some(sse::event(Some(&event_id(&self.seen)), LIST_CHANGED));
        }
        loop {
            tokio::select! {
                () = self.state.stopping.cancelled() => return None,
                () = self.session.ended().cancelled() => return None,
                Ok(()) = self.holder.changed() => {
                    if *self.holder.borrow() != self.mine {
                        return None;
                    }
                }
                () = self.welcome.ended() => return None,
                Ok(()) = self.versions.changed() => {
                    let registry = self.state.dispatcher.registry();
                    let features = self.session.version().features();
                    let now = self.state.lists.rendered(registry, self.welcome.principal(), features);
                    let same = now.same_as(&self.seen);
                    self.seen = now;
                    if !same {
                        return Some(sse::event(Some(&event_id(&self.seen)), LIST_CHANGED));
                    }
                }
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }
}
