//! `GET`: the session stream, and resuming the stream of a call.
//!
//! The session stream carries only notifications that a list or a resource has changed. Its event ids contain hashes
//! of the lists that the client sees, `g-<tools>-<prompts>-<resources>`. A client that resumes with the id of an
//! outdated list is notified of the change, also after a restart. Entries that the client cannot see do not affect
//! the hashes. Streams of calls have ids `c-<tag>-<stream>-<message>`.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::{Principal, StreamPermit};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Interval;

use super::stream::{NextMessage, StreamLog};
use super::{McpSession, State, open};
use crate::offers::Mailbox;
use crate::server::changes::{ListKind, ListWatcher, WatchedResources};
use crate::server::headers::{LAST_EVENT_ID, accepts};
use crate::server::rpc::{INVALID_REQUEST, RpcError};
use crate::server::sse;

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
    let slot = state.streams.enter(&principal)?;
    let permit = StreamPermit::new(state.authenticator.clone(), principal.clone(), slot);
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    if let Some((name, after)) = last.and_then(call_event) {
        return Ok(match session.stream(name) {
            Some(log) => follow(state, &session, permit, log, after),
            // The stream was lost in a restart or has expired: an empty stream.
            None => sse::response(stream::empty()),
        });
    }
    Ok(listen(state, session, permit, principal, last))
}

/// Parses `c-<name of the stream>-<message>`.
fn call_event(id: &str) -> Option<(&str, u64)> {
    let (name, message) = id.strip_prefix("c-")?.rsplit_once('-')?;
    Some((name, message.parse().ok()?))
}

/// The messages of a call's stream after number `after`, including future ones.
pub(super) fn follow(
    state: &Arc<State>,
    session: &Arc<McpSession>,
    permit: StreamPermit,
    log: Arc<StreamLog>,
    after: u64,
) -> Response {
    let follower = Follower {
        permit,
        changes: log.changes(),
        priming: after == 0 && session.version().has_priming_event(),
        log,
        after,
        ticks: sse::ticks(state.options.keep_alive),
        session: session.clone(),
    };
    sse::response(stream::unfold(follower, |mut follower| async { Some((follower.next().await?, follower)) }))
}

struct Follower {
    permit: StreamPermit,
    session: Arc<McpSession>,
    log: Arc<StreamLog>,
    changes: watch::Receiver<()>,
    priming: bool,
    after: u64,
    ticks: Interval,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        let stream = self.log.name();
        if std::mem::take(&mut self.priming) {
            return Some(sse::priming(&format!("c-{stream}-0")));
        }
        loop {
            self.changes.mark_unchanged();
            match self.log.next(self.after) {
                NextMessage::Message(number, json) => {
                    self.after = number;
                    return Some(sse::event(Some(&format!("c-{stream}-{number}")), &json));
                }
                NextMessage::End => return None,
                NextMessage::Wait => {}
            }
            tokio::select! {
                // Cannot fail, because `self` holds the log.
                changed = self.changes.changed() => changed.ok()?,
                () = self.session.ended().cancelled() => return None,
                () = self.permit.wait_until_invalid() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }
}

/// The session stream, resumed after the event `last`.
fn listen(
    state: &Arc<State>,
    session: Arc<McpSession>,
    permit: StreamPermit,
    principal: Arc<Principal>,
    last: Option<&str>,
) -> Response {
    let lists = ListWatcher::new(state, &principal, session.version().features());
    let current = lists.fingerprints();
    let known_fingerprints = last.map_or(current.map(Some), parse_fingerprints);
    let outdated = ListKind::ALL
        .into_iter()
        .filter(|list| known_fingerprints[*list as usize] != Some(current[*list as usize]));
    let (number, latest) = session.take_listener();
    let listener = Listener {
        outdated: outdated.collect(),
        // Changes during the interruption are unknown, so all watched resources count as changed.
        updated: if last.is_some() {
            session.with_watched(|watched| watched.uris().map(str::to_owned).collect())
        } else {
            VecDeque::new()
        },
        known_fingerprints: known_fingerprints.map(Option::unwrap_or_default),
        // With outdated lists, the new id is sent with their notifications, not before.
        priming: session.version().has_priming_event() && known_fingerprints == current.map(Some),
        principal,
        permit,
        state: state.clone(),
        mailbox: session.with_watched(|watched| watched.mailbox()),
        session,
        lists,
        number,
        latest,
        ticks: sse::ticks(state.options.keep_alive),
    };
    sse::response(stream::unfold(listener, |mut listener| async { Some((listener.next().await?, listener)) }))
}

/// Parses `g-<tools>-<prompts>-<resources>`, the hashes of the lists that a client knows.
fn parse_fingerprints(id: &str) -> [Option<u64>; 3] {
    let mut parts = id.strip_prefix("g-").unwrap_or_default().split('-');
    [(); 3].map(|()| parts.next().and_then(|part| u64::from_str_radix(part, 16).ok()))
}

struct Listener {
    state: Arc<State>,
    session: Arc<McpSession>,
    principal: Arc<Principal>,
    permit: StreamPermit,
    lists: ListWatcher,
    mailbox: Arc<Mailbox>,
    /// The hashes of the lists that the client knows.
    known_fingerprints: [u64; 3],
    /// Lists that changed before the stream was resumed, not yet sent.
    outdated: VecDeque<ListKind>,
    /// Changed resources, not yet sent.
    updated: VecDeque<String>,
    /// The number of this listener.
    number: u64,
    /// The number of the session's latest listener, which replaces the earlier ones.
    latest: watch::Receiver<u64>,
    priming: bool,
    ticks: Interval,
}

impl Listener {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.priming) {
            return Some(sse::priming(&self.event_id()));
        }
        loop {
            if let Some(list) = self.outdated.pop_front() {
                return Some(self.changed(list));
            }
            if let Some(uri) = self.updated.pop_front() {
                let updated = json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
                });
                return Some(sse::event(Some(&self.event_id()), &updated.to_string()));
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => return None,
                () = self.session.ended().cancelled() => return None,
                Ok(()) = self.latest.changed() => {
                    if *self.latest.borrow() != self.number {
                        return None;
                    }
                }
                () = self.permit.wait_until_invalid() => return None,
                list = self.lists.changed(&self.state, &self.principal) => return Some(self.changed(list)),
                changed = self.mailbox.take() => {
                    let still_watched = |watched: &mut WatchedResources| {
                        watched.still_watched(&self.state, &self.principal, changed)
                    };
                    self.updated.extend(self.session.with_watched(still_watched));
                }
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    /// The notification of a changed list. Updates the known hash of this list only.
    fn changed(&mut self, list: ListKind) -> Bytes {
        self.known_fingerprints[list as usize] = self.lists.fingerprints()[list as usize];
        let json = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}", list.method());
        sse::event(Some(&self.event_id()), &json)
    }

    fn event_id(&self) -> String {
        let [tools, prompts, resources] = self.known_fingerprints;
        format!("g-{tools:016x}-{prompts:016x}-{resources:016x}")
    }
}

#[cfg(test)]
mod tests;
