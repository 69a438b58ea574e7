//! `subscriptions/listen`: news, for as long as the client holds the stream open.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use plexus_auth::Principal;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Interval;

use super::meta::META_SUBSCRIPTION;
use crate::offers::Mailbox;
use crate::server::news::{Changed, Lists, MAX_WATCHED, Watching};
use crate::server::rpc::{self, Request, RpcError};
use crate::server::welcome::Welcome;
use crate::server::{State, headers, offers, sse};
use crate::version::Features;

/// An acknowledgement of what is honoured, then a notification whenever a list that this caller sees or a resource that
/// it named has changed, then a result when the hub stops.
pub(super) fn open(
    state: &Arc<State>,
    headers: &HeaderMap,
    request: &Request<'_>,
    principal: Arc<Principal>,
) -> Result<Response, RpcError> {
    if !headers::accepts(headers, "text/event-stream") {
        let message = "subscriptions/listen is answered as text/event-stream";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, rpc::INVALID_REQUEST, message));
    }
    let wanted: Option<Map<String, Value>> =
        request.params.notifications.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let Some(wanted) = wanted else {
        let message = "params.notifications must be an object of the notifications wanted";
        return Err(RpcError::invalid_params(message).with_status(StatusCode::BAD_REQUEST));
    };
    let place = state.streams.enter(&principal)?;
    let lists: Vec<Changed> = Changed::ALL
        .into_iter()
        .filter(|list| wanted.get(filter(*list)) == Some(&Value::Bool(true)))
        .collect();
    let mut watching = Watching::default();
    let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
    let seen = offers::seen(state, &principal);
    // No more are looked at than may be followed: each may be compared with every template there is.
    for uri in uris.into_iter().flatten().filter_map(Value::as_str).take(MAX_WATCHED) {
        // One that nobody has, or nobody tells of, is left out of what is honoured.
        let _ = watching.add(state, &principal, &seen, uri);
    }
    let subscription = Subscription {
        id: request.id.to_owned(),
        follow: Lists::new(state, &principal, Features::ALL),
        lists,
        mailbox: watching.mailbox(),
        watching,
        untold: VecDeque::new(),
        welcome: Welcome::new(state.authenticator.clone(), principal.clone(), place),
        principal,
        state: state.clone(),
        ticks: sse::ticks(state.options.keep_alive),
        phase: Phase::Acknowledge,
    };
    Ok(sse::response(stream::unfold(subscription, |mut subscription| async {
        Some((subscription.next().await?, subscription))
    })))
}

/// What a client calls the changes of a list.
fn filter(list: Changed) -> &'static str {
    match list {
        Changed::Tools => "toolsListChanged",
        Changed::Prompts => "promptsListChanged",
        Changed::Resources => "resourcesListChanged",
    }
}

enum Phase {
    Acknowledge,
    Follow,
    Over,
}

struct Subscription {
    id: Box<RawValue>,
    /// Those that the client wants to hear of.
    lists: Vec<Changed>,
    follow: Lists,
    watching: Watching,
    mailbox: Arc<Mailbox>,
    /// Resources that have changed and were not told yet.
    untold: VecDeque<String>,
    principal: Arc<Principal>,
    welcome: Welcome,
    state: Arc<State>,
    ticks: Interval,
    phase: Phase,
}

impl Subscription {
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Acknowledge => {
                if self.watching.uris().next().is_some() {
                    // What changes from now on is heard of.
                    self.state.upstreams.watches_applied(&self.watching.servers()).await;
                }
                self.phase = Phase::Follow;
                let honoured = json!({ "notifications": self.honoured() });
                Some(self.notification("notifications/subscriptions/acknowledged", honoured))
            }
            Phase::Follow => self.follow().await,
            Phase::Over => None,
        }
    }

    fn honoured(&self) -> Value {
        let mut honoured: Map<String, Value> =
            self.lists.iter().map(|list| (filter(*list).to_owned(), Value::Bool(true))).collect();
        let uris: Vec<&str> = self.watching.uris().collect();
        if !uris.is_empty() {
            honoured.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        Value::Object(honoured)
    }

    async fn follow(&mut self) -> Option<Bytes> {
        loop {
            if let Some(uri) = self.untold.pop_front() {
                return Some(self.notification("notifications/resources/updated", json!({ "uri": uri })));
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => {
                    self.phase = Phase::Over;
                    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", self.id.get());
                    let result = format!("{{\"resultType\":\"complete\",\"_meta\":{meta}}}");
                    return Some(sse::event(None, &rpc::result_json(&self.id, &result)));
                }
                list = self.follow.changed(&self.state, &self.principal), if !self.lists.is_empty() => {
                    if self.lists.contains(&list) {
                        return Some(self.notification(list.method(), json!({})));
                    }
                }
                changed = self.mailbox.take() => {
                    self.untold.extend(self.watching.told(&self.state, &self.principal, changed));
                }
                () = self.welcome.ended() => return None,
                _ = self.ticks.tick() => return Some(sse::keep_alive()),
            }
        }
    }

    fn notification(&self, method: &str, mut params: Value) -> Bytes {
        // The id as the client wrote it.
        let id: Value = serde_json::from_str(self.id.get()).unwrap_or_default();
        params["_meta"] = json!({ META_SUBSCRIPTION: id });
        sse::event(None, &json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
    }
}
