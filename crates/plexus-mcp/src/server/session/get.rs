//! `GET`: the session's own stream, and resuming the stream of a call.
//!
//! The session's own stream carries only what says "look again", at a list or at a resource. Its event ids therefore
//! name the lists that the client could see, `g-<tools>-<prompts>-<resources>`: whoever comes back with an id of another
//! list is told to look again, also after a restart. What the client may not see is not in it, so its coming and going
//! does not show. Streams of calls have ids `c-<tag>-<stream>-<message>`.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Interval;

use super::stream::{Next, StreamLog};
use super::{McpSession, State, open};
use crate::offers::Mailbox;
use crate::server::headers::{LAST_EVENT_ID, accepts};
use crate::server::news::{Changed, Lists, Watching};
use crate::server::rpc::{INVALID_REQUEST, RpcError};
use crate::server::sse;
use crate::server::welcome::Welcome;

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
    let welcome = Welcome::new(state.authenticator.clone(), principal.clone(), place);
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    if let Some((name, after)) = last.and_then(call_event) {
        return Ok(match session.stream(name) {
            Some(log) => follow(state, &session, welcome, log, after),
            // Gone with a restart or for its age: a stream that has nothing more.
            None => sse::response(stream::empty()),
        });
    }
    Ok(listen(state, session, welcome, principal, last))
}

/// `c-<name of the stream>-<message>`.
fn call_event(id: &str) -> Option<(&str, u64)> {
    let (name, message) = id.strip_prefix("c-")?.rsplit_once('-')?;
    Some((name, message.parse().ok()?))
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
        let stream = self.log.name();
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
fn listen(
    state: &Arc<State>,
    session: Arc<McpSession>,
    welcome: Welcome,
    principal: Arc<Principal>,
    last: Option<&str>,
) -> Response {
    let lists = Lists::new(state, &principal, session.version().features());
    let now = lists.fingerprints();
    let told = last.map_or(now.map(Some), told_by);
    let behind = Changed::ALL.into_iter().filter(|list| told[*list as usize] != Some(now[*list as usize]));
    let (mine, holder) = session.take_listener();
    let listener = Listener {
        behind: behind.collect(),
        // Nobody knows what was said of them while nobody listened.
        untold: if last.is_some() {
            session.watched(|watching| watching.uris().map(str::to_owned).collect())
        } else {
            VecDeque::new()
        },
        told: told.map(Option::unwrap_or_default),
        // Whoever has something to catch up on gets the new id with that, not before it.
        priming: session.version().has_priming_event() && told == now.map(Some),
        principal,
        welcome,
        state: state.clone(),
        mailbox: session.watched(|watching| watching.mailbox()),
        session,
        lists,
        mine,
        holder,
        ticks: sse::ticks(state.options.keep_alive),
    };
    sse::response(stream::unfold(listener, |mut listener| async { Some((listener.next().await?, listener)) }))
}

/// `g-<tools>-<prompts>-<resources>`: what a client knows of each list, as far as its last event says so.
fn told_by(id: &str) -> [Option<u64>; 3] {
    let mut parts = id.strip_prefix("g-").unwrap_or_default().split('-');
    [(); 3].map(|()| parts.next().and_then(|part| u64::from_str_radix(part, 16).ok()))
}

struct Listener {
    state: Arc<State>,
    session: Arc<McpSession>,
    principal: Arc<Principal>,
    welcome: Welcome,
    lists: Lists,
    mailbox: Arc<Mailbox>,
    /// What the client knows of each list.
    told: [u64; 3],
    /// Lists that it has yet to be told of from before, and resources.
    behind: VecDeque<Changed>,
    untold: VecDeque<String>,
    /// Our number, and that of whoever holds the stream now.
    mine: u64,
    holder: watch::Receiver<u64>,
    priming: bool,
    ticks: Interval,
}

impl Listener {
    async fn next(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.priming) {
            return Some(sse::priming(&self.event_id()));
        }
        loop {
            if let Some(list) = self.behind.pop_front() {
                return Some(self.changed(list));
            }
            if let Some(uri) = self.untold.pop_front() {
                let updated = json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
                });
                return Some(sse::event(Some(&self.event_id()), &updated.to_string()));
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => return None,
                () = self.session.ended().cancelled() => return None,
                Ok(()) = self.holder.changed() => {
                    if *self.holder.borrow() != self.mine {
                        return None;
                    }
                }
                () = self.welcome.ended() => return None,
                list = self.lists.changed(&self.state, &self.principal) => return Some(self.changed(list)),
                changed = self.mailbox.take() => {
                    let told = |watching: &mut Watching| watching.told(&self.state, &self.principal, changed);
                    self.untold.extend(self.session.watched(told));
                }
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    /// Tells of a list. Of the others the client knows what it did.
    fn changed(&mut self, list: Changed) -> Bytes {
        self.told[list as usize] = self.lists.fingerprints()[list as usize];
        let json = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}", list.method());
        sse::event(Some(&self.event_id()), &json)
    }

    fn event_id(&self) -> String {
        let [tools, prompts, resources] = self.told;
        format!("g-{tools:016x}-{prompts:016x}-{resources:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::told_by;

    #[test]
    fn an_id_says_what_its_client_knows_of_each_list() {
        assert_eq!(told_by("g-00000000000000ff-1-a"), [Some(255), Some(1), Some(10)]);
        assert_eq!(told_by("g-ff"), [Some(255), None, None], "as it was when there were only tools");
        assert_eq!(told_by("anything"), [None; 3]);
    }
}
